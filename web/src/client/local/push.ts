import { client } from "../sdk.js";

/** The state of push notifications in this browser. */
export type PushState = "unsupported" | "unavailable" | "blocked" | "off" | "on";

/** The current state. `unavailable` is a server without Web Push, `blocked` a user who has refused notifications. */
export async function pushState(): Promise<PushState> {
  if (!("serviceWorker" in navigator) || !("PushManager" in window) || !("Notification" in window))
    return "unsupported";
  const { web_push_public_key: key } = await client.api.service();
  if (!key) return "unavailable";
  if (Notification.permission === "denied") return "blocked";
  const registration = await navigator.serviceWorker.ready;
  return (await registration.pushManager.getSubscription()) ? "on" : "off";
}

/** Asks for permission, subscribes this browser, and registers the subscription with the server. */
export async function switchPushOn(): Promise<PushState> {
  const { web_push_public_key: applicationServerKey } = await client.api.service();
  if (!applicationServerKey) return "unavailable";
  if ((await Notification.requestPermission()) !== "granted") return "blocked";
  const registration = await navigator.serviceWorker.ready;
  const subscription = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey });
  const { endpoint, keys } = subscription.toJSON();
  const { p256dh = "", auth = "" } = keys ?? {};
  const deviceId = await client.deviceId();
  await client.api.registerPush(deviceId, { provider: "webpush", endpoint: endpoint ?? "", keys: { p256dh, auth } });
  return "on";
}

/** Removes the subscription from the server and the browser. */
export async function switchPushOff(): Promise<PushState> {
  await client.api.unregisterPush(await client.deviceId());
  const registration = await navigator.serviceWorker.ready;
  await (await registration.pushManager.getSubscription())?.unsubscribe();
  return "off";
}
