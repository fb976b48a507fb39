/** The close reasons on which a client acts. */
export type CloseReason = "token_expired" | "session_revoked" | "duplicate_connection" | "other";

/**
 * The reason of a close frame, or of the announcement before it: the text decides, or the code if the text is unknown.
 */
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
