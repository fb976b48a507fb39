import { client } from "../sdk.js";
import { loadChat, noteGone, noteUpdated } from "./chats.js";
import { tellWhileHidden } from "./hidden-page.js";
import { inbox, pushToInbox, refreshInbox, updateInInbox } from "./inbox.js";
import { loadInvitations } from "./invitations.js";
import { openChatId } from "./navigation.js";
import { noteArrived, noteFailed, noteSent } from "./outbox.js";
import { forgetPresences, notePresences, noteTyping } from "./people.js";
import { noteRead } from "./reading.js";
import { loadReceipts, noteReceipt } from "./receipts.js";
import { connection, me, phase } from "./session-state.js";
import { forget, newestOf, receive, receiveUpdate, resetTimeline } from "./timelines.js";
import { tell } from "./toasts.js";
import { unlessUnreachable } from "./unless-unreachable.js";
import { loadUpdateLimits, noteUpdateArrived, noteUpdateFailed, noteUpdateSent } from "./updates.js";

/**
 * Applies the events of the SDK to the state of the page. `onSignedOut` is called when the session has ended elsewhere.
 */
export function followEvents(onSignedOut: () => void): void {
  client.on("connected", () => {
    connection.value = "online";
  });
  client.on("disconnected", () => {
    connection.value = "offline";
    forgetPresences();
  });
  client.on("caughtUp", () => void refresh());
  // Invitations are not pushed: a user who comes back to the page sees the new ones.
  document.addEventListener("visibilitychange", () => {
    const isSignedIn = me.peek() !== undefined;
    if (document.visibilityState === "visible" && isSignedIn) void unlessUnreachable(loadInvitations);
  });
  client.on("message", async (message) => {
    await receive(message);
    if (message.client_message_id) noteArrived(message.client_message_id);
    noteTyping({ chat_id: message.chat_id, user_id: message.sender_id, is_typing: false });
    await unlessUnreachable(() => pushToInbox(message, me.peek()?.user_id ?? ""));
    if (message.sender_id !== me.peek()?.user_id) await tellWhileHidden(message);
  });
  client.on("updated", async (updated) => {
    await receiveUpdate(updated, me.peek()?.user_id ?? "");
    noteUpdateArrived(updated);
    await unlessUnreachable(() => updateInInbox(updated, newestOf(updated.update.chat_id, updated.update.sequence)));
  });
  client.on("sent", (ack) => {
    noteSent(ack);
    noteUpdateSent(ack);
  });
  client.on("failed", (failed) => {
    if (!noteUpdateFailed(failed)) noteFailed(failed);
  });
  client.on("receipt", async (receipt) => {
    if (receipt.user_id !== me.peek()?.user_id) noteReceipt(receipt, receipt.chat_id);
    else await unlessUnreachable(() => noteRead(receipt.chat_id, receipt.read_sequence));
  });
  client.on("expired", async ({ chatId, sequences }) => {
    await forget(chatId, sequences);
    // The unread count and the preview may have included them.
    await unlessUnreachable(() => loadChat(chatId));
  });
  client.on("chatUpdated", (update) => unlessUnreachable(() => noteUpdated(update)));
  client.on("chatGone", ({ chatId }) => noteGone(chatId));
  client.on("chatReset", ({ chatId }) => resetTimeline(chatId));
  client.on("typing", noteTyping);
  client.on("presence", notePresences);
  client.on("storageFailed", () => {
    tell("This browser could not save something. Make some room on the disk, or leave private mode.", true);
  });
  client.on("stopped", ({ reason }) => {
    connection.value = "offline";
    if (reason === "signedOut") onSignedOut();
    if (reason === "duplicateConnection") phase.value = { is: "elsewhere" };
  });
}

/** Loads state that is not pushed: counts, names, and the other members' watermarks after an offline period. */
async function refresh(): Promise<void> {
  await unlessUnreachable(async () => {
    await refreshInbox();
    await loadUpdateLimits();
    await loadInvitations();
    const open = openChatId();
    if (!open) return;
    await loadChat(open);
    if (inbox.peek().get(open)?.head_sequence) await loadReceipts(open);
  });
}
