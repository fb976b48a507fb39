import type { Member } from "../answers";
import { count, number } from "../format";
import { href } from "../route";

/** Most members in the plot; the list below has all. */
const DRAWN_MAX = 40;

/** The range of sequences in which the members' watermarks differ. */
export function span(members: readonly Member[], head: number): { from: number; to: number } {
  const lowest = Math.min(head, ...members.map((member) => member.read_sequence));
  // Part of the fully read range stays visible, so that a lag of one message does not look like a lag of all.
  return { from: Math.max(0, lowest - Math.max(10, Math.round((head - lowest) / 4))), to: Math.max(head, 1) };
}

/** The position of a sequence in a span, from 0 to 100. */
export function place(sequence: number, { from, to }: { from: number; to: number }): number {
  return Math.min(100, Math.max(0, ((sequence - from) / (to - from)) * 100));
}

/** A chat as one axis of sequences, with the delivered and read watermarks of each member. */
export function Watermarks(props: { members: Member[]; head: number; marked?: number }) {
  const { members, head, marked } = props;
  if (head === 0) return <p class="empty">Nobody has written in this chat yet.</p>;
  const range = span(members, head);
  const behindFirst = [...members].sort(
    (a, b) => a.delivered_sequence - b.delivered_sequence || a.read_sequence - b.read_sequence,
  );
  const mark = marked === undefined ? undefined : { left: `${place(marked, range)}%` };
  return (
    <div class="watermarks">
      <div class="axis" aria-hidden="true">
        <span>{number(range.from)}</span>
        {mark === undefined ? null : <span class="axis-mark" style={mark}>{number(marked ?? 0)}</span>}
        <span>{marked !== undefined && place(marked, range) > 80 ? "" : `head ${number(head)}`}</span>
      </div>
      <ul>
        {behindFirst.slice(0, DRAWN_MAX).map((member) => (
          <li key={member.user_id}>
            <a class="who" href={href({ view: "user", id: member.user_id })}>
              <span class={`dot ${member.connected ? "dot-on" : "dot-off"}`} />
              {member.display_name}
            </a>
            <div class="track" role="img" aria-label={spoken(member, head)}>
              <i class="received" style={{ width: `${place(member.delivered_sequence, range)}%` }} />
              <i class="read" style={{ width: `${place(member.read_sequence, range)}%` }} />
              {mark === undefined ? null : <i class="mark" style={mark} />}
            </div>
            <span class="behind">{behind(member, head)}</span>
          </li>
        ))}
      </ul>
      {members.length <= DRAWN_MAX ? null : (
        <p class="quiet">And {count(members.length - DRAWN_MAX, "member")} who are further on.</p>
      )}
      <p class="key">
        <span><i class="key-read" /> read</span>
        <span><i class="key-received" /> received</span>
        <span><i class="key-missing" /> not confirmed</span>
        <span><span class="dot dot-on" /> connected</span>
        <span><span class="dot dot-off" /> away</span>
      </p>
    </div>
  );
}

function behind(member: Member, head: number): string {
  const [missing, unread] = [head - member.delivered_sequence, head - member.read_sequence];
  if (missing > 0) return `${number(missing)} not confirmed`;
  return unread > 0 ? `${number(unread)} not read` : "all read";
}

function spoken(member: Member, head: number): string {
  const { display_name: name, connected, delivered_sequence: received, read_sequence: read } = member;
  return `${name}, ${connected ? "connected" : "away"}: received up to ${received}, read up to ${read} of ${head}`;
}
