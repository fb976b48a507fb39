import type { Status } from "../../store/receipts.js";

const WORDS: Record<Status, string> = {
  queued: "Waiting to be sent",
  failed: "Not sent",
  sent: "Sent",
  delivered: "Delivered",
  read: "Read",
};

const MARKS: Record<Status, string> = {
  queued: "M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11zM8 5v3l2 1.5",
  failed: "M8 3v6M8 12v.1",
  sent: "M4 8.5l3 3 6-6.5",
  delivered: "M1.5 8.5l3 3 6-6.5M9 11l.7.5 6-6.5",
  read: "M1.5 8.5l3 3 6-6.5M9 11l.7.5 6-6.5",
};

/** The delivery status of the user's own message. */
export function StatusMark({ status }: { status: Status }) {
  return (
    <span class={`status status-${status}`} title={WORDS[status]}>
      <svg width={18} height={16} viewBox="0 0 18 16" aria-hidden="true" focusable="false">
        <path d={MARKS[status]} />
      </svg>
      <span class="visually-hidden">{WORDS[status]}</span>
    </span>
  );
}
