import { signal } from "@preact/signals";
import { ApiError, type User } from "@tidings/client";

import { client } from "../sdk.js";
import { inWords, isBlockedByUser } from "../store/failures.js";
import { meet, nameOf } from "./names.js";
import { attempt, tell } from "./toasts.js";

/** The users whom this user has blocked; unknown until they are loaded. */
export const blocked = signal<readonly User[] | undefined>(undefined);

/** Loads all blocks. */
export async function loadBlocks(): Promise<void> {
  const found: User[] = [];
  let cursor: string | undefined;
  do {
    const { data, pagination } = await client.api.blocks(cursor ? { cursor } : {});
    found.push(...data.blocks);
    cursor = pagination.has_more ? (pagination.next_cursor ?? undefined) : undefined;
  } while (cursor);
  meet(found);
  blocked.value = found;
}

/** Blocks a user: neither can write to the other in their direct chat. */
export async function block(user: User): Promise<void> {
  await client.api.block(user.user_id);
  blocked.value = [...(blocked.peek() ?? []).filter((one) => one.user_id !== user.user_id), user];
}

/** Removes a block: both can write to each other again. */
export async function unblock(userId: string): Promise<void> {
  await client.api.unblock(userId);
  blocked.value = blocked.peek()?.filter((one) => one.user_id !== userId);
}

/**
 * Runs an action that reaches a user, and shows a toast if it fails. If the reason is a block by this user, the toast
 * offers to remove it and to repeat the action.
 */
export async function attemptToReach(userId: string, act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
  } catch (failure) {
    if (!(failure instanceof ApiError) || !isBlockedByUser(failure)) return tell(inWords(failure, nameOf), true);
    tell(`You have blocked ${nameOf(userId)}.`, true, {
      label: "Unblock",
      act: () =>
        void attempt(async () => {
          await unblock(userId);
          await act();
        }),
    });
  }
}
