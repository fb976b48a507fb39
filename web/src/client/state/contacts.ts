import { signal } from "@preact/signals";
import type { User } from "@tidings/client";

import { client } from "../sdk.js";
import { meet } from "./names.js";

/** The user's contacts; unknown until they are loaded. */
export const contacts = signal<readonly User[] | undefined>(undefined);

/** Loads all contacts. */
export async function loadContacts(): Promise<void> {
  const found: User[] = [];
  let cursor: string | undefined;
  do {
    const { data, pagination } = await client.api.contacts(cursor ? { cursor } : {});
    found.push(...data.contacts);
    cursor = pagination.has_more ? (pagination.next_cursor ?? undefined) : undefined;
  } while (cursor);
  meet(found);
  contacts.value = found;
}

/** Adds a contact: two users see each other online once both have added the other. */
export async function addContact(userId: string): Promise<void> {
  const user = await client.api.addContact(userId);
  contacts.value = [...(contacts.peek() ?? []).filter((one) => one.user_id !== userId), user];
}

/** Removes a contact. */
export async function removeContact(userId: string): Promise<void> {
  await client.api.removeContact(userId);
  contacts.value = (contacts.peek() ?? []).filter((one) => one.user_id !== userId);
}

/** The user with a phone number. */
export async function findByPhone(phoneNumber: string): Promise<User | undefined> {
  const [user] = await client.api.lookUpUsers([phoneNumber]);
  if (user) meet([user]);
  return user ?? undefined;
}
