import type { MessageWithStatus } from "@tidings/client";

/** The watermarks of a member. */
export interface Watermarks {
  readonly delivered: number;
  readonly read: number;
}

/** The watermarks of a chat's members, by user id. */
export type MemberWatermarks = ReadonlyMap<string, Watermarks>;

/** Updates a member's watermarks. They never decrease, even if updates arrive out of order. */
export function withWatermarks(members: MemberWatermarks, userId: string, told: Watermarks): MemberWatermarks {
  const known = members.get(userId) ?? { delivered: 0, read: 0 };
  const delivered = Math.max(known.delivered, told.delivered, told.read);
  const read = Math.max(known.read, told.read);
  if (members.has(userId) && delivered === known.delivered && read === known.read) return members;
  return new Map(members).set(userId, { delivered, read });
}

/** The lowest watermarks of the other members; 0 if there are none. */
export function commonWatermarks(members: MemberWatermarks, others: readonly string[]): Watermarks {
  if (others.length === 0) return { delivered: 0, read: 0 };
  const each = others.map((userId) => members.get(userId) ?? { delivered: 0, read: 0 });
  return {
    delivered: Math.min(...each.map(({ delivered }) => delivered)),
    read: Math.min(...each.map(({ read }) => read)),
  };
}

/** The delivery status of the user's own message. */
export type Status = "queued" | "failed" | "sent" | "delivered" | "read";

/** The status of an accepted message: from the server or from the watermarks, the more advanced of the two. */
export function statusOf(message: Pick<MessageWithStatus, "sequence" | "status">, common: Watermarks): Status {
  if (message.status === "read" || common.read >= message.sequence) return "read";
  if (message.status === "delivered" || common.delivered >= message.sequence) return "delivered";
  return "sent";
}
