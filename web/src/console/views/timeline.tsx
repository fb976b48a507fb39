import { useEffect, useState } from "preact/hooks";

import type { Member, MessageEvent, TimelineAnswer, TimelineEvent } from "../answers";
import { AdminError, get } from "../api";
import { bytes, count, number } from "../format";
import { Badge, Moment, Panel } from "../parts/facts";
import { Empty, sentence } from "../parts/shown";
import { href } from "../route";

/** The events of a chat, newest first. Contents are not shown: operators must not see them. */
export function Timeline({ chatId, members }: { chatId: string; members: Member[] }) {
  const [events, setEvents] = useState<TimelineEvent[]>([]);
  const [next, setNext] = useState<number | null>(null);
  const [failure, setFailure] = useState<string | null>(null);

  const load = async (before: number | null, kept: TimelineEvent[]) => {
    try {
      const query = before === null ? "" : `?before=${before}`;
      const page = await get<TimelineAnswer>(`/chats/${encodeURIComponent(chatId)}/timeline${query}`);
      setEvents([...kept, ...page.events]);
      setNext(page.next_before);
      setFailure(null);
    } catch (error) {
      setFailure(sentence(error instanceof AdminError ? error.message : String(error)));
    }
  };
  // Each refresh of the chat reloads its members, and the timeline with them.
  useEffect(() => void load(null, []), [chatId, members]);

  return (
    <Panel title="Timeline" note="newest first, without contents">
      {failure === null ? null : <p class="notice notice-bad" role="alert">{failure}</p>}
      {events.length === 0 ? <Empty>Nothing yet.</Empty> : (
        <ol class="timeline">
          {events.map((event) => (
            <li key={keyOf(event)} class={`event event-${event.kind}`}>
              <EventLine event={event} members={members} />
            </li>
          ))}
        </ol>
      )}
      {next === null ? null : (
        <button class="button" type="button" onClick={() => void load(next, events)}>Earlier</button>
      )}
    </Panel>
  );
}

function keyOf(event: TimelineEvent): string {
  switch (event.kind) {
    case "message":
      return event.message_id;
    case "expired":
      return `expired ${event.from_sequence}`;
    case "joined":
      return `joined ${event.user_id}`;
    case "created":
      return "created";
  }
}

function EventLine({ event, members }: { event: TimelineEvent; members: Member[] }) {
  switch (event.kind) {
    case "message":
      return <MessageLine event={event} members={members} />;
    case "expired":
      return <span class="quiet">{expired(event.from_sequence, event.to_sequence)}</span>;
    case "joined":
      return (
        <>
          <span>
            {event.display_name} {event.with_the_chat ? "was there from the start" : "joined"} as {event.role}
          </span>
          <span class="when"><Moment at={event.at} /></span>
        </>
      );
    case "created":
      return (
        <>
          <span>The chat was opened</span>
          <span class="when"><Moment at={event.at} /></span>
        </>
      );
  }
}

function expired(from: number, to: number): string {
  if (from === to) return `Message ${number(from)} has expired.`;
  return `Messages ${number(from)} to ${number(to)} have expired.`;
}

function MessageLine({ event, members }: { event: MessageEvent; members: Member[] }) {
  const nameOf = (id: string) => members.find((member) => member.user_id === id)?.display_name ?? id;
  const missing = event.others_count - event.delivered_count;
  const named = event.not_delivered_to.slice(0, 3).map(nameOf).join(", ");
  return (
    <>
      <a
        class="sequence"
        href={href({ view: "message", id: event.message_id })}
        aria-label={`Where is message ${event.sequence}?`}
      >
        {number(event.sequence)}
      </a>
      <span>
        {event.sender_name} <span class="quiet">{bytes(event.content_bytes)} of {event.content_type}</span>
        {event.expires_at === null ? null : <span class="quiet">, expires <Moment at={event.expires_at} /></span>}
      </span>
      <span>
        {missing > 0 ? (
          <Badge tone="warning">not with {missing > 3 ? `${named} and ${number(missing - 3)} more` : named}</Badge>
        ) : event.read_count === event.others_count ? (
          <Badge tone="good">read by all</Badge>
        ) : (
          <Badge>received by all, read by {count(event.read_count, "member")}</Badge>
        )}
      </span>
      <span class="when"><Moment at={event.at} /></span>
    </>
  );
}
