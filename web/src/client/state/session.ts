import { ApiError, type Me } from "@tidings/client";

import { cache } from "../local/cache.js";
import { drafts } from "../local/drafts.js";
import { journal } from "../local/journal.js";
import { claimTab } from "../local/tab.js";
import { client } from "../sdk.js";
import { followEvents } from "./events.js";
import { inbox, isInboxKnown, refreshInbox, restoreInbox } from "./inbox.js";
import { invitations } from "./invitations.js";
import { meet } from "./names.js";
import { goInstead } from "./navigation.js";
import { outbox, restoreOutbox } from "./outbox.js";
import { forgetPeople, watchInbox } from "./people.js";
import { connection, me, phase } from "./session-state.js";
import { forgetTimelines } from "./timelines.js";
import { unlessUnreachable } from "./unless-unreachable.js";

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
    if (await client.isSignedIn()) await resume();
    else phase.value = { is: "signedOut" };
  } catch (failure) {
    // Server failures are handled where they occur, so this is a failure of the browser's storage.
    phase.value = { is: "forgetful" };
    throw failure;
  }
}

/** Subscribes to the events of the SDK. Called once per page. */
export function listen(): void {
  followEvents(() => void forgetUser("You were signed out on this device."));
  watchInbox();
}

/** Continues after a sign-in. A new user is asked for a name first. */
export async function signedIn(user: Me, isNew: boolean): Promise<void> {
  await become(user);
  if (isNew) phase.value = { is: "naming" };
  else await open();
}

/** Sets the name of a new user. */
export async function nameMyself(displayName: string): Promise<void> {
  await become(await client.api.updateMe({ display_name: displayName }));
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
  connection.value = "connecting";
  phase.value = { is: "ready" };
  // A device without known chats loads the whole inbox once, instead of each chat at its first message.
  if (!isInboxKnown.peek()) await unlessUnreachable(refreshInbox);
  client.connect();
}

async function forgetUser(why?: string): Promise<void> {
  goInstead({ at: "inbox" });
  phase.value = why ? { is: "signedOut", why } : { is: "signedOut" };
  me.value = undefined;
  inbox.value = new Map();
  isInboxKnown.value = false;
  outbox.value = [];
  invitations.value = [];
  forgetTimelines();
  forgetPeople();
  journal.clear();
  drafts.clear();
  await cache.clear();
}
