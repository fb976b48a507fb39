import { ApiError, type Me } from "@tidings/client";

import { cache } from "../local/cache.js";
import { journal } from "../local/journal.js";
import { claimTab } from "../local/tab.js";
import { client, isGiven, useTokens } from "../sdk.js";
import { forgetComposing } from "./composing.js";
import { followEvents } from "./events.js";
import { forgetGivenToken, givenTokens } from "./given-token.js";
import { inbox, isInboxKnown, refreshInbox, restoreInbox } from "./inbox.js";
import { invitations } from "./invitations.js";
import { meet } from "./names.js";
import { goInstead } from "./navigation.js";
import { forgetAllNotes } from "./notes.js";
import { outbox, restoreOutbox } from "./outbox.js";
import { forgetPeople, watchInbox } from "./people.js";
import { connection, me, phase } from "./session-state.js";
import { forgetTimelines } from "./timelines.js";
import { unlessUnreachable } from "./unless-unreachable.js";
import { forgetUpdates, restoreUpdates } from "./updates.js";

/** Whether this page is deleting the account. */
let isDeleting = false;

/**
 * Starts as the signed-in user, or with the sign-in. If another tab is active, this one stays passive, unless it is
 * told to take over.
 */
export async function start(how: "ifFree" | "takeOver" = "ifFree"): Promise<void> {
  phase.value = { is: "starting" };
  const acts = await claimTab(how, () => {
    phase.value = { is: "elsewhere" };
    void client.close();
  });
  if (!acts) {
    phase.value = { is: "elsewhere" };
    return;
  }
  try {
    if (!isListening && !(await begin())) return;
    if (await client.isSignedIn()) await resume();
    else phase.value = { is: "signedOut" };
  } catch (failure) {
    // Server failures are handled where they occur, so this is a failure of the browser's storage.
    phase.value = { is: "forgetful" };
    throw failure;
  }
}

/** Whether the page has begun, with the tokens of this service or of another application. */
let isListening = false;

/** Takes the tokens of another application, if it gives some. Returns `false` if the page cannot start with them. */
async function begin(): Promise<boolean> {
  const given = await givenTokens();
  if (given) {
    try {
      const user = await useTokens(given);
      // This page may have been that of another user.
      if ((await cache.me())?.user_id !== user.user_id) await forgetLocally();
      await cache.keepMe(user);
    } catch (failure) {
      const isOver = failure instanceof ApiError && failure.isFinal;
      if (isOver) forgetGivenToken();
      phase.value = isOver ? { is: "signedOut", why: GIVEN_UP } : { is: "unreachable" };
      return false;
    }
  }
  isListening = true;
  listen();
  return true;
}

const GIVEN_UP = "Your sign-in has ended.";

/** Subscribes to the events of the SDK. Called once per page. */
function listen(): void {
  // The server closes the connection of a deleted account before it answers.
  followEvents(() => isDeleting || void forgetUser(isGiven ? GIVEN_UP : "You were signed out on this device."));
  watchInbox();
}

/** Continues after a sign-in. A new user is asked for a name first. */
export async function signedIn(user: Me, isNew: boolean): Promise<void> {
  await become(user);
  if (isNew) phase.value = { is: "naming" };
  else await open();
}

/**
 * Sets the name of a new user. On a server for development everybody sees the user online: two windows show presence
 * without two contact lists.
 */
export async function nameMyself(displayName: string, isDev: boolean): Promise<void> {
  const visibility = isDev ? ({ presence_visibility: "everyone" } as const) : {};
  await become(await client.api.updateMe({ display_name: displayName, ...visibility }));
  await open();
}

/** Changes the user's name or settings. */
export async function updateMe(change: Parameters<typeof client.api.updateMe>[0]): Promise<void> {
  await become(await client.api.updateMe(change));
}

/** Ends the session on this device and deletes all data of the user. */
export async function signOut(): Promise<void> {
  // If the server cannot be reached, the session expires there later; this device deletes its data now.
  await unlessUnreachable(() => client.signOut());
  await forgetUser();
}

/** Deletes the account on the server, and all data of the user on this device. */
export async function deleteAccount(erasesMessages: boolean): Promise<void> {
  isDeleting = true;
  try {
    await client.deleteAccount({ eraseMessages: erasesMessages });
    await forgetUser("Your account is deleted.");
  } finally {
    isDeleting = false;
  }
}

/**
 * Resumes as the last user: at once if this device knows them, whether or not the server can be reached.
 */
async function resume(): Promise<void> {
  const known = await cache.me();
  if (known) {
    await become(known);
    await open();
    await unlessUnreachable(async () => become(await client.api.me()));
    return;
  }
  try {
    await become(await client.api.me());
    await open();
  } catch (failure) {
    const isOver = failure instanceof ApiError && failure.isFinal;
    phase.value = isOver ? { is: "signedOut" } : { is: "unreachable" };
  }
}

async function become(user: Me): Promise<void> {
  me.value = user;
  meet([user]);
  await cache.keepMe(user);
}

async function open(): Promise<void> {
  await restoreInbox();
  await restoreOutbox();
  await restoreUpdates();
  connection.value = "connecting";
  phase.value = { is: "ready" };
  // A device without known chats loads the whole inbox once, instead of each chat at its first message.
  if (!isInboxKnown.peek()) await unlessUnreachable(refreshInbox);
  client.connect();
}

async function forgetUser(why?: string): Promise<void> {
  goInstead({ at: "inbox" });
  phase.value = why ? { is: "signedOut", why } : { is: "signedOut" };
  forgetGivenToken();
  await forgetLocally();
}

/** Deletes what this page keeps of a user. */
async function forgetLocally(): Promise<void> {
  me.value = undefined;
  inbox.value = new Map();
  isInboxKnown.value = false;
  outbox.value = [];
  forgetUpdates();
  forgetAllNotes();
  invitations.value = [];
  forgetTimelines();
  forgetPeople();
  journal.clear();
  forgetComposing();
  await cache.clear();
}
