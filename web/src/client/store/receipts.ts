import type { MessageWithStatus } from "@tidings/client";

/** How far a member has come. */
export interface Watermarks {
  readonly delivered: number;
  readonly read: number;
}

/** The watermarks of a chat's members, by user id. */
export type MemberWatermarks = ReadonlyMap<string, Watermarks>;

/** Takes note of a member's watermarks. They never go back, in whatever order they come. */
export function withWatermarks(members: MemberWatermarks, userId: string, told: Watermarks): MemberWatermarks {
  const known = members.get(userId) ?? { delivered: 0, read: 0 };
  const delivered = Math.max(known.delivered, told.delivered, told.read);
  const read = Math.max(known.read, told.read);
  if (members.has(userId) && delivered === known.delivered && read === known.read) return members;
  return new Map(members).set(userId, { delivered, read });
}

/** How far all of the others have come: the least of their watermarks. Nobody else is nowhere. */
export function commonWatermarks(members: MemberWatermarks, others: readonly string[]): Watermarks {
  if (others.length === 0) return { delivered: 0, read: 0 };
  const each = others.map((userId) => members.get(userId) ?? { delivered: 0, read: 0 });
  return {
    delivered: Math.min(...each.map(({ delivered }) => delivered)),
    read: Math.min(...each.map(({ read }) => read)),
  };
}

/** What has become of one's own message. */
export type Status = "queued" | "failed" | "sent" | "delivered" | "read";

/** The status of a message that the server has, by the server's word or by the watermarks, whichever knows more. */
export function statusOf(message: Pick<MessageWithStatus, "sequence" | "status">, common: Watermarks): Status {
  if (message.status === "read" || common.read >= message.sequence) return "read";
  if (message.status === "delivered" || common.delivered >= message.sequence) return "delivered";
  return "sent";
}
