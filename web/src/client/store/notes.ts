import type { ChatUpdated } from "@tidings/client";

/** A change of a chat, as a line in its log. */
export interface Note {
  readonly key: string;
  readonly at: number;
  /** The line follows the message with this sequence; 0 is before the first one. */
  readonly after: number;
  readonly text: string;
}

/** Most notes of one chat on this device. */
const NOTES_MAX = 50;

/** Appends a note, and drops the oldest ones beyond the limit. */
export function withNote(notes: readonly Note[], note: Note): readonly Note[] {
  return [...notes, note].slice(-NOTES_MAX);
}

/** The facts of a note: names as they are after the change. */
export interface ChangeFacts {
  /** The user of the change: "You", or a name. */
  readonly who: string;
  readonly isMe: boolean;
  readonly role: string | undefined;
  readonly chatName: string;
  /** The lifetime of messages in words, if there is one. */
  readonly lifetime: string | undefined;
}

/** A change in words; nothing for changes that have no line, or that this client does not know. */
export function changeInWords(change: ChatUpdated["change"], facts: ChangeFacts): string | undefined {
  const { who, isMe, role, chatName, lifetime } = facts;
  switch (change) {
    case "renamed":
      return `The group is now called “${chatName}”`;
    case "member_added":
      return `${who} joined`;
    case "member_removed":
      return `${who} left`;
    case "role_changed":
      return role && `${who} ${isMe ? "are" : "is"} now ${ROLES[role] ?? role}`;
    case "message_ttl_changed":
      return lifetime ? `New messages disappear after ${lifetime}` : "New messages no longer disappear";
    default:
      return undefined;
  }
}

const ROLES: Record<string, string> = { owner: "the owner", admin: "an admin", member: "a plain member" };
