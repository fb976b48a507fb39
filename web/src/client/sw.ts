// The service worker: serves the page when the server cannot be reached, and shows push notifications while no page is
// open. It caches only the shell; the page stores the messages.

declare const self: ServiceWorkerGlobalScope;
/** The digest of the shell's files, inserted by the build. */
declare const SHELL_VERSION: string;

const SHELL = `shell-${SHELL_VERSION}`;
const FILES = [
  "/",
  "/assets/client.js",
  "/assets/client.css",
  "/assets/theme.js",
  "/assets/icon.svg",
  "/assets/badge.svg",
  "/manifest.webmanifest",
];

/** The payload of a push notification. */
interface Notice {
  chat_id: string;
  chat_type: string;
  chat_name?: string;
  sender_name: string;
  preview?: string;
  unread_count: number;
}

self.addEventListener("install", (event) => {
  event.waitUntil(
    caches
      .open(SHELL)
      .then((shell) => shell.addAll(FILES))
      .then(() => self.skipWaiting()),
  );
});

self.addEventListener("activate", (event) => {
  event.waitUntil(
    caches
      .keys()
      .then((names) => Promise.all(names.filter((name) => name !== SHELL).map((name) => caches.delete(name))))
      .then(() => self.clients.claim()),
  );
});

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== self.location.origin || !FILES.includes(url.pathname)) return;
  // Network first, so that a new version of the page is used at once. Most responses are 304.
  event.respondWith(
    fetch(event.request).catch(async () => {
      const kept = await (await caches.open(SHELL)).match(url.pathname);
      return kept ?? Response.error();
    }),
  );
});

self.addEventListener("push", (event) => {
  const notice = event.data?.json() as Notice | undefined;
  if (!notice) return;
  const isGroup = notice.chat_type === "group";
  const text = notice.preview ?? "New message";
  const title = isGroup ? (notice.chat_name ?? "Group") : notice.sender_name;
  const shown = self.registration.showNotification(title, {
    body: isGroup ? `${notice.sender_name}: ${text}` : text,
    tag: notice.chat_id,
    icon: "/assets/icon.svg",
    badge: "/assets/badge.svg",
    data: { chatId: notice.chat_id },
  });
  event.waitUntil(shown);
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const { chatId } = event.notification.data as { chatId: string };
  event.waitUntil(open(`/#/chats/${chatId}`));
});

/** Opens the chat in an open page, or in a new one. */
async function open(address: string): Promise<void> {
  const [page] = await self.clients.matchAll({ type: "window" });
  if (!page) {
    await self.clients.openWindow(address);
    return;
  }
  await page.focus();
  page.postMessage({ open: address });
}

export {};
