import { useAnswer } from "../answer";
import type { AuditedAction } from "../answers";
import { Badge, Moment, Table, type Tone } from "../parts/facts";
import { Empty, Shown } from "../parts/shown";

/** The operator actions in this process. */
export function Audit() {
  const [answer, again] = useAnswer<{ actions: AuditedAction[] }>("/audit");
  return (
    <>
      <header class="view-head">
        <h1>Audit</h1>
        <button class="button" type="button" onClick={again}>Refresh</button>
      </header>
      <p class="lead quiet">
        Every action on the admin listener of this process, from <code>admin-audit.jsonl</code> in its data directory:
        written before it was done, and what came of it after.
      </p>
      <Shown of={answer} retry={again}>
        {({ actions }) => actions.length === 0 ? <Empty>Nobody has had anything done yet.</Empty> : (
          <div class="panel">
            <Table label="Audit" heads={["When", "Who", "What", "On whom", "Outcome"]}>
              {actions.map((action) => (
                <tr key={action.id}>
                  <td><Moment at={action.at} /></td>
                  <td>
                    {action.by.operator ?? <code>{action.by.token}</code>}{" "}
                    <span class="quiet">{action.by.address ?? ""}</span>
                  </td>
                  <td><b>{deedName(action.action)}</b></td>
                  <td>
                    <code class="wrap">{action.target}</code>
                    {action.request === undefined ? null : (
                      <code class="wrap quiet"> {JSON.stringify(action.request)}</code>
                    )}
                  </td>
                  <td><Outcome of={action} /></td>
                </tr>
              ))}
            </Table>
          </div>
        )}
      </Shown>
    </>
  );
}

const DEEDS: Record<string, string> = {
  "DELETE /users/{id}/sessions": "Revoke all sessions",
  "DELETE /users/{id}/sessions/{session_id}": "Revoke session",
  "POST /users/{id}/suspend": "Suspend user",
  "POST /users/{id}/resume": "End suspension",
  "DELETE /connections/{id}": "Close connection",
  "POST /gateways/{id}/drain": "Drain gateway",
  "POST /gateways/{id}/resume": "Resume gateway",
  "POST /webhook/replay": "Replay webhook",
  "POST /notifications/replay": "Replay notifications",
  "POST /dead-letters/{id}/redeliver": "Redeliver dead letter",
  "DELETE /dead-letters/{id}": "Forget dead letter",
  "POST /operators": "Add operator",
  "DELETE /operators/{name}": "Remove operator",
  "POST /operators/{name}/rotate": "Rotate token",
};

/** The name of an action; its route if it has none here. */
export function deedName(action: string): string {
  return DEEDS[action] ?? action;
}

const TONES: Record<string, Tone> = { done: "good", refused: "warning", failed: "bad" };

function Outcome({ of: action }: { of: AuditedAction }) {
  if (action.outcome === undefined) return <Badge tone="bad">unknown: the process ended during it</Badge>;
  return (
    <>
      <Badge tone={TONES[action.outcome] ?? "plain"}>{action.outcome}</Badge> <span class="quiet">{action.status}</span>
    </>
  );
}
