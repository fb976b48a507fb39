import { useAnswer } from "../answer";
import type { DeadLetter, WebhookAnswer } from "../answers";
import { count, number } from "../format";
import { propose } from "../parts/confirm";
import { Badge, Facts, Moment, Panel, Table } from "../parts/facts";
import { Empty, Shown } from "../parts/shown";
import { href } from "../route";

/** The deliveries to other servers: the webhook of the application, and what could not be delivered. */
export function Deliveries() {
  const [letters, again] = useAnswer<{ dead_letters: DeadLetter[]; next: string | null }>("/dead-letters");
  return (
    <>
      <header class="view-head">
        <h1>Deliveries</h1>
        <button class="button" type="button" onClick={again}>Refresh</button>
      </header>
      <Webhook />
      <Shown of={letters} retry={again}>
        {({ dead_letters: rows, next }) => (
          <Panel
            title="Dead letters"
            note={next === null ? count(rows.length, "letter") : `the first ${count(rows.length, "letter")}`}
          >
            {rows.length === 0 ? <Empty>Everything was delivered, or waits for its next attempt.</Empty> : (
              <Table label="Dead letters" heads={["Since", "What", "Reason", "Attempts", ""]}>
                {rows.map((letter) => <Row key={letter.id} letter={letter} again={again} />)}
              </Table>
            )}
          </Panel>
        )}
      </Shown>
    </>
  );
}

function Webhook() {
  const [answer, again] = useAnswer<WebhookAnswer>("/webhook", 5000);
  // A service without a webhook has none to show.
  if (answer.state === "failed" && answer.status === 404) return <Empty>This service has no webhook.</Empty>;
  return (
    <Shown of={answer} retry={again}>
      {(webhook) => (
        <Panel title="Webhook">
          <Facts
            of={[
              ["State", webhook.failing_since === null ? (
                <Badge tone="good">delivering</Badge>
              ) : (
                <><Badge tone="bad">failing</Badge> <Moment at={webhook.failing_since} /></>
              )],
              ["Events behind", number(webhook.lag_events)],
              ["Delivered", number(webhook.delivered)],
              ["Failed attempts", number(webhook.failed)],
              ["Last error", webhook.last_error ?? <span class="quiet">none</span>],
            ]}
          />
        </Panel>
      )}
    </Shown>
  );
}

function Row({ letter, again }: { letter: DeadLetter; again: () => void }) {
  const path = `/dead-letters/${encodeURIComponent(letter.id)}`;
  const redeliver = () =>
    propose({
      title: "Redeliver",
      effect: "It is delivered now, once. If that fails, it stays here with the new reason.",
      method: "POST",
      path: `${path}/redeliver`,
      done: "It is delivered.",
      after: again,
    });
  const forget = () =>
    propose({
      title: "Forget dead letter",
      effect: "It is removed from this list and never delivered. Messages themselves are not affected.",
      method: "DELETE",
      path,
      done: "It is forgotten.",
      after: again,
    });
  return (
    <tr>
      <td><Moment at={letter.dead_at} /></td>
      <td>
        {WHAT[letter.kind]}{" "}
        {letter.chat_id ? <a href={href({ view: "chat", id: letter.chat_id })}><code>{letter.chat_id}</code></a> : null}
        {letter.user_id ? (
          <div class="quiet">for <a href={href({ view: "user", id: letter.user_id })}><code>{letter.user_id}</code></a></div>
        ) : null}
      </td>
      <td class="wrap">{letter.reason}</td>
      <td class="amount">{number(letter.attempts)}</td>
      <td class="row-actions">
        <button class="button" type="button" onClick={redeliver}>Redeliver</button>{" "}
        <button class="button button-danger" type="button" onClick={forget}>Forget</button>
      </td>
    </tr>
  );
}

const WHAT: Record<DeadLetter["kind"], string> = {
  event: "An event of chat",
  unreadable: "An unreadable record of the log",
  notification: "A notification of chat",
};
