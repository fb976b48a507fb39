import { signal } from "@preact/signals";

/** The names of all users known to this device, by user id. */
const names = signal<ReadonlyMap<string, string>>(new Map());

/** Stores display names. */
export function meet(people: readonly { user_id: string; display_name: string }[]): void {
  const unknown = people.filter((person) => names.peek().get(person.user_id) !== person.display_name);
  if (unknown.length === 0) return;
  names.value = new Map([...names.peek(), ...unknown.map((person) => [person.user_id, person.display_name] as const)]);
}

/** The display name of a user. */
export function nameOf(userId: string): string {
  return names.value.get(userId) ?? "Somebody";
}
