import { ApiError, type Me } from "@tidings/client";

import { cache } from "../local/cache.js";
import { drafts } from "../local/drafts.js";
import { journal } from "../local/journal.js";
import { claimTab } from "../local/tab.js";
import { client } from "../sdk.js";
import { followEvents } from "./events.js";
import { inbox, isInboxKnown, refreshInbox, restoreInbox } from "./inbox.js";
import { meet } from "./names.js";
import { goInstead } from "./navigation.js";
import { outbox, restoreOutbox } from "./outbox.js";
import { forgetPeople, watchInbox } from "./people.js";
import { connection, me, phase } from "./session-state.js";
import { forgetTimelines } from "./timelines.js";
import { unlessUnreachable } from "./unless-unreachable.js";

/**
 * Begins: as the user who is signed in here, or with signing in. Other tabs are respected unless they are to give
 * way.
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
    // The server's failures are dealt with where they come up, so this one is of the browser's storage.
    phase.value = { is: "forgetful" };
    throw failure;
  }
}

/** Listens to the SDK. Once for the life of the page. */
export function listen(): void {
  followEvents(() => void forgetUser("You were signed out on this device."));
  watchInbox();
}

/** Goes on after a sign-in. A new user is asked for a name first. */
export async function signedIn(user: Me, isNew: boolean): Promise<void> {
  await become(user);
  if (isNew) phase.value = { is: "naming" };
  else await open();
}

/** Takes the name that a new user has chosen. */
export async function nameMyself(displayName: string): Promise<void> {
  await become(await client.api.updateMe({ display_name: displayName }));
  await open();
}

/** Changes the user's name or who sees them online. */
export async function updateMe(change: Parameters<typeof client.api.updateMe>[0]): Promise<void> {
  await become(await client.api.updateMe(change));
}

/** Ends the session on this device and forgets everything of the user. */
export async function signOut(): Promise<void> {
  // A server that cannot be told forgets the session in its own time; this device does now.
  await unlessUnreachable(() => client.signOut());
  await forgetUser();
}

/**
 * Goes on as the user of the last time: at once if this device knows them, whether or not the server can be reached.
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
  // A device that knows no chat asks once for all of them, and not for each when its first message comes.
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
  forgetTimelines();
  forgetPeople();
  journal.clear();
  drafts.clear();
  await cache.clear();
}
