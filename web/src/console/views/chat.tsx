import { useAnswer } from "../answer";
import type { ChatAnswer, Member } from "../answers";
import { count, mutedUntil, number } from "../format";
import { Badge, Facts, Id, Moment, Panel, Table } from "../parts/facts";
import { Shown } from "../parts/shown";
import { Watermarks } from "../parts/watermarks";
import { href } from "../route";
import { Timeline } from "./timeline";

/** One chat: members, their watermarks, and events. */
export function Chat({ id }: { id: string }) {
  const [answer, again] = useAnswer<ChatAnswer>(`/chats/${encodeURIComponent(id)}`);
  return (
    <Shown of={answer} retry={again}>
      {(chat) => (
        <>
          <header class="view-head">
            <h1>{nameOf(chat)}</h1>
            <Badge>{chat.type}</Badge>
            <button class="button" type="button" onClick={again}>Refresh</button>
          </header>
          <Facts
            of={[
              ["Chat", <Id id={chat.chat_id} />],
              ["Opened", <Moment at={chat.created_at} />],
              ["Last message", <Moment at={chat.last_message_at} />],
              ["Head", number(chat.head_sequence)],
              ["In the log", <InLog chat={chat} />],
              ["Messages live", life(chat.message_ttl_seconds)],
            ]}
          />
          <Panel title="How far each has come" note={count(chat.members.length, "member")}>
            <Watermarks members={chat.members} head={chat.head_sequence} />
          </Panel>
          <Panel title="Members">
            <Table label="Members" heads={["Member", "Role", "Joined", "Received", "Read", "Where"]}>
              {chat.members.map((member) => <MemberRow key={member.user_id} member={member} />)}
            </Table>
          </Panel>
          <Timeline chatId={chat.chat_id} members={chat.members} />
        </>
      )}
    </Shown>
  );
}

/** The name of a chat: a direct chat is named by its two members. */
function nameOf(chat: ChatAnswer): string {
  const names = chat.members.map((member) => member.display_name).join(" and ");
  return chat.name ?? (chat.type === "direct" ? names : chat.chat_id);
}

function life(seconds: number | null): string {
  return seconds === null ? "for ever" : `${number(seconds)} s`;
}

function InLog({ chat }: { chat: ChatAnswer }) {
  const missing = chat.head_sequence - chat.published_sequence;
  if (missing === 0) return <Badge tone="good">all</Badge>;
  return <Badge tone="warning">{count(missing, "message")} not yet</Badge>;
}

function MemberRow({ member }: { member: Member }) {
  return (
    <tr>
      <td>
        <a href={href({ view: "user", id: member.user_id })}>{member.display_name}</a>
        {member.muted_until === null ? null : <div class="quiet">muted {mutedUntil(member.muted_until)}</div>}
      </td>
      <td>{member.role}</td>
      <td><Moment at={member.joined_at} /></td>
      <td class="amount">{number(member.delivered_sequence)}</td>
      <td class="amount">{number(member.read_sequence)}</td>
      <td>
        {member.connected ? (
          <>
            <Badge tone="good">connected</Badge> at <code>{member.gateways.join(", ")}</code>
          </>
        ) : (
          <>
            <Badge>away</Badge> since <Moment at={member.away_since} none="ever" />
            <div class="quiet">
              {member.push_devices === 0 ? "no device" : count(member.push_devices, "device")} notified
            </div>
          </>
        )}
      </td>
    </tr>
  );
}
