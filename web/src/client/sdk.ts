import { ApiError, Client, indexedDbStorage } from "@tidings/client";

/** The SDK client of this browser. */
export const client = new Client({ baseUrl: location.origin, storage: indexedDbStorage("tidings") });

/** An error as a text for users: the problem and the remedy. */
export function inWords(failure: unknown): string {
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
      return "You may not do that here. Ask the owner of the group.";
    case "MESSAGE_TOO_LARGE":
      return "That message is too long.";
    default:
      return sentence(failure.message);
  }
}

function waiting(seconds: number | undefined): string {
  if (seconds === undefined) return "later";
  return seconds < 90 ? `in ${seconds} seconds` : `in ${Math.ceil(seconds / 60)} minutes`;
}

/** The server's message as a sentence. */
function sentence(message: string): string {
  const text = message.replace(/`/g, "").replace(/^[A-Z_]+: /, "");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
