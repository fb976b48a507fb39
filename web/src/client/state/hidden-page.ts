import type { Message } from "@tidings/client";

import { chatName } from "../store/inbox.js";
import { plainText } from "../store/markdown.js";
import { inbox } from "./inbox.js";
import { nameOf } from "./names.js";

/**
 * Shows a notification for a message while the page is open but hidden: the server pushes notifications only to users
 * without a connection.
 */
export async function tellWhileHidden(message: Message): Promise<void> {
  const chat = inbox.peek().get(message.chat_id);
  const isWanted = chat && !chat.my_membership.muted_until && message.sequence > chat.my_read_sequence;
  if (!isWanted || document.visibilityState === "visible") return;
  if (!("Notification" in window) || Notification.permission !== "granted") return;
  const text = textOf(message).slice(0, 100);
  const registration = await navigator.serviceWorker.ready;
  await registration.showNotification(chatName(chat), {
    body: chat.type === "group" ? `${nameOf(message.sender_id)}: ${text}` : text,
    tag: message.chat_id,
    icon: "/assets/icon.svg",
    badge: "/assets/badge.svg",
    data: { chatId: message.chat_id },
  });
}

function textOf({ content, content_type: contentType }: Message): string {
  if (contentType === "application/vnd.tidings.encrypted") return "New message";
  return contentType === "text/markdown" ? plainText(content) : content;
}
