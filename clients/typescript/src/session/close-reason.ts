/** Why a server ends a connection, as far as a client acts on it. */
export type CloseReason = "token_expired" | "session_revoked" | "duplicate_connection" | "other";

/** The reason in a close frame, or in the announcement before it: the text decides, the code where it is unknown. */
export function closeReason(code: number, text: string): CloseReason {
  switch (text) {
    case "token_expired":
    case "session_revoked":
    case "duplicate_connection":
      return text;
  }
  switch (code) {
    case 4001:
      return "token_expired";
    case 4009:
      return "duplicate_connection";
    default:
      return "other";
  }
}
