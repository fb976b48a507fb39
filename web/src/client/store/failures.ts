import { ApiError, type SendError, type UpdateAction } from "@tidings/client";

/** A remedy for a failure, besides a retry. */
export type Remedy = "unblock" | "none";

/** The name of a user, for texts. */
type NameOf = (userId: string) => string;

/** An error as a text for users: the problem and the remedy. */
export function inWords(failure: unknown, nameOf: NameOf = () => "this person"): string {
  if (!(failure instanceof ApiError)) return "Something went wrong. Please try again.";
  switch (failure.code) {
    case "UNREACHABLE":
    case "SERVICE_UNAVAILABLE":
    case "SERVER_BUSY":
      return "The server cannot be reached right now. Please try again in a moment.";
    case "RATE_LIMITED":
      return `That was too often. Please try again ${waiting(failure.retryAfterSeconds)}.`;
    case "NOT_SIGNED_IN":
    case "UNAUTHORIZED":
      return "You are no longer signed in on this device.";
    case "NOT_A_MEMBER":
      return "You are not a member of this chat any more.";
    case "CHAT_FULL":
      return "This group is full.";
    case "ALREADY_A_MEMBER":
      return "They are a member already.";
    case "FORBIDDEN":
      return refusalInWords(failure, nameOf);
    case "MESSAGE_TOO_LARGE":
      return "That message is too long.";
    default:
      return isBlockedByUser(failure) ? "You have blocked this person. Unblock them first." : sentence(failure);
  }
}

/** The failure of a sign-in as a text. There is no session yet, so a refusal concerns the code. */
export function signInInWords(failure: unknown): string {
  const isRefused = failure instanceof ApiError && failure.code === "UNAUTHORIZED";
  return isRefused ? sentence(failure) : inWords(failure);
}

/** The users whom the caller cannot add to a group, if that is the reason of a failure. */
export function notReachable(failure: unknown): readonly string[] {
  if (!(failure instanceof ApiError) || failure.details["reason"] !== "not_reachable") return [];
  const userIds = failure.details["user_ids"];
  return Array.isArray(userIds) ? userIds.filter((userId): userId is string => typeof userId === "string") : [];
}

/** Whether an action failed because the user has blocked the other one. */
export function isBlockedByUser(failure: { readonly details: Record<string, unknown> }): boolean {
  return failure.details["reason"] === "blocked_by_you";
}

/** The refusal of a message as a text, with the remedy if it is not another try. `other` is the member of a direct chat. */
export function refusedSendInWords(failure: SendError, other: string): { text: string; remedy?: Remedy } {
  if (isBlockedByUser(failure)) return { text: `You have blocked ${other}.`, remedy: "unblock" };
  if (failure.details["reason"] === "not_reachable") return { text: `You cannot write to ${other}.`, remedy: "none" };
  switch (failure.code) {
    case "NOT_A_MEMBER":
      return { text: "You are not a member of this chat any more.", remedy: "none" };
    case "NOT_FOUND":
      return { text: "This chat does not exist any more.", remedy: "none" };
    case "MESSAGE_TOO_LARGE":
      return { text: "This message is too long.", remedy: "none" };
    case "QUEUE_FULL":
      return { text: "Too many messages are waiting to be sent." };
    case "NOT_KEPT":
      return { text: "This browser could not store the message." };
    default:
      return { text: sentence(failure) };
  }
}

/**
 * The refusal of an update as a text; nothing if the message is already as the user wanted it. `other` is the member of
 * a direct chat.
 */
export function refusedUpdateInWords(
  action: UpdateAction["action"],
  failure: SendError,
  other: string,
): string | undefined {
  const reason = failure.details["reason"];
  if (reason === "already_reacted" || reason === "not_reacted") return undefined;
  const why = typeof reason === "string" ? UPDATE_REASONS[reason] : undefined;
  return `${NOT_DONE[action]} ${why ?? refusedSendInWords(failure, other).text}`;
}

const NOT_DONE: Record<UpdateAction["action"], string> = {
  edit: "Your edit was not saved.",
  delete: "The message was not deleted.",
  react: "Your reaction was not saved.",
  unreact: "Your reaction was not removed.",
};

const UPDATE_REASONS: Record<string, string> = {
  message_not_found: "This message does not exist any more.",
  not_the_author: "Only its author can edit a message.",
  may_not_delete: "Only its author and the admins of the group can delete a message.",
  too_old: "It is too old to be changed.",
  too_many_kinds: "This message has as many different reactions as it can have.",
  too_many_reactions: "You have as many reactions on this message as you can have.",
};

function refusalInWords(failure: ApiError, nameOf: NameOf): string {
  const { reason } = failure.details;
  const userIds = notReachable(failure);
  if (userIds.length > 0) return `You cannot add ${listed(userIds.map(nameOf))}.`;
  if (reason === "not_reachable") return "You cannot write to this person.";
  if (reason === "account_suspended") return "This account is suspended. Ask the operator of this service.";
  return `${sentence(failure)} Ask the owner of the group.`;
}

/** Names as a list in words: Ada, Bob and Cleo. */
export function listed(names: readonly string[]): string {
  const last = names.at(-1) ?? "";
  return names.length < 2 ? last : `${names.slice(0, -1).join(", ")} and ${last}`;
}

function waiting(seconds: number | undefined): string {
  if (seconds === undefined) return "later";
  return seconds < 90 ? `in ${seconds} seconds` : `in ${Math.ceil(seconds / 60)} minutes`;
}

/** The server's message as a sentence, without the name of a field or a code before it. */
function sentence({ message }: { readonly message: string }): string {
  const text = message.replace(/`/g, "").replace(/^(?:[A-Z_]+|[a-z_]+(?:\[\d+\])?): /, "");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
