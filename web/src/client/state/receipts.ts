import { signal } from "@preact/signals";
import type { Receipt } from "@tidings/client";

import { client } from "../sdk.js";
import { withWatermarks, type MemberWatermarks } from "../store/receipts.js";

/** The watermarks of the members of each chat. */
export const watermarks = signal<ReadonlyMap<string, MemberWatermarks>>(new Map());

const NOBODY: MemberWatermarks = new Map();

/** The watermarks of a chat's members. */
export function watermarksOf(chatId: string): MemberWatermarks {
  return watermarks.value.get(chatId) ?? NOBODY;
}

/** Applies the watermarks of a member. */
export function noteReceipt(receipt: Omit<Receipt, "chat_id">, chatId: string): void {
  const told = { delivered: receipt.delivered_sequence, read: receipt.read_sequence };
  const known = watermarks.peek().get(chatId) ?? NOBODY;
  const next = withWatermarks(known, receipt.user_id, told);
  if (next !== known) watermarks.value = new Map(watermarks.peek()).set(chatId, next);
}

/** Loads the watermarks of all members; later changes are pushed. */
export async function loadReceipts(chatId: string): Promise<void> {
  const { members } = await client.api.receipts(chatId);
  members.forEach((member) => noteReceipt(member, chatId));
}
