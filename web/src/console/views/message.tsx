import { useAnswer } from "../answer";
import type { MessageAnswer, Reached } from "../answers";
import { bytes, localTimes, number } from "../format";
import { Badge, Facts, Id, Moment, Panel, Table, type Tone } from "../parts/facts";
import { Shown, sentence } from "../parts/shown";
import { Watermarks } from "../parts/watermarks";
import { href } from "../route";

/** The location of a message: one sentence, and the supporting facts. */
export function Message({ id }: { id: string }) {
  const [answer, again] = useAnswer<MessageAnswer>(`/messages/${encodeURIComponent(id)}`);
  return (
    <>
      <header class="view-head">
        <h1>Where is my message?</h1>
        <button class="button" type="button" onClick={again}>Refresh</button>
      </header>
      <Shown of={answer} retry={again}>{(found) => <Found found={found} />}</Shown>
    </>
  );
}

function Found({ found }: { found: MessageAnswer }) {
  const { message } = found;
  const others = found.members.filter((member) => member.reach !== "sender");
  return (
    <>
      <p class="answer">{localTimes(found.answer)}</p>
      <Steps found={found} />
      <Facts
        of={[
          ["Message", <Id id={message.message_id} />],
          ["Chat", <a href={href({ view: "chat", id: message.chat_id })}>{found.chat.name ?? message.chat_id}</a>],
          ["Sequence", `${number(message.sequence)} of ${number(found.head_sequence)}`],
          ["Sender", <a href={href({ view: "user", id: message.sender_id })}>{message.sender_name}</a>],
          ["Sender’s id for it", <Id id={message.client_message_id} />],
          ["Content", `${bytes(message.content_bytes)} of ${message.content_type}`],
          ["Expires", <Moment at={message.expires_at} />],
        ]}
      />
      <Panel title="On the axis of the chat">
        <Watermarks members={others} head={found.head_sequence} marked={message.sequence} />
      </Panel>
      <Panel title="With each member">
        <Table label="Members" heads={["Member", "Message", "Why"]}>
          {others.map((member) => (
            <tr key={member.user_id}>
              <td><a href={href({ view: "user", id: member.user_id })}>{member.display_name}</a></td>
              <td><Reach of={member} /></td>
              <td>{member.reason === null ? "" : sentence(localTimes(member.reason))}</td>
            </tr>
          ))}
        </Table>
      </Panel>
    </>
  );
}

/** The stages of a message, with the completed ones filled in. */
function Steps({ found }: { found: MessageAnswer }) {
  const { others_count: others, delivered_count: delivered, read_count: read } = found;
  const steps: [string, string, "done" | "part" | "open"][] = [
    ["Committed", "on disk, acknowledged", "done"],
    found.in_log
      ? ["In the log", "for everybody who consumes it", "done"]
      : ["In the log", "not yet: it waits for the relay", "open"],
    ["Received", `by ${number(delivered)} of ${number(others)}`, progress(delivered, others)],
    ["Read", `by ${number(read)} of ${number(others)}`, progress(read, others)],
  ];
  return (
    <ol class="steps">
      {steps.map(([name, note, state]) => (
        <li key={name} class={`step step-${state}`}>
          <b>{name}</b> <span>{note}</span>
        </li>
      ))}
    </ol>
  );
}

function progress(reached: number, all: number): "done" | "part" | "open" {
  if (reached === all) return "done";
  return reached > 0 ? "part" : "open";
}

const REACH: Record<Reached["reach"], [string, Tone]> = {
  sender: ["sent it", "plain"],
  read: ["read", "good"],
  delivered: ["received", "good"],
  joined_later: ["joined later, finds it in the history", "plain"],
  waiting: ["not received", "warning"],
};

function Reach({ of: member }: { of: Reached }) {
  const [words, tone] = REACH[member.reach];
  return <Badge tone={tone}>{words}</Badge>;
}
