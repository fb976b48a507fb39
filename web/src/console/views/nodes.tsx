import { useAnswer } from "../answer";
import type { Node } from "../answers";
import { number } from "../format";
import { propose } from "../parts/confirm";
import { Badge, Moment, Table } from "../parts/facts";
import { Shown } from "../parts/shown";

const REFRESH_MS = 2000;

/** The processes of the service. */
export function Nodes() {
  const [answer, again] = useAnswer<{ nodes: Node[] }>("/nodes", REFRESH_MS);
  return (
    <>
      <header class="view-head"><h1>Nodes</h1></header>
      <Shown of={answer} retry={again}>
        {({ nodes }) => (
          <>
            <div class="panel">
              <Table label="Nodes" heads={["Process", "Roles", "Started", "Version", "Connections", "State", ""]}>
                {nodes.map((node) => (
                  <Row key={node.id} node={node} isOnly={nodes.filter(isGateway).length < 2} again={again} />
                ))}
              </Table>
            </div>
            {nodes.length < 2 ? null : (
              <p class="quiet">
                Each process answers to its own admin listener and token. Version and state of the others are known
                there, and a gateway is drained there.
              </p>
            )}
          </>
        )}
      </Shown>
    </>
  );
}

function isGateway(node: Node): boolean {
  return node.roles.includes("gateway");
}

function Row({ node, isOnly, again }: { node: Node; isOnly: boolean; again: () => void }) {
  return (
    <tr>
      <td>
        <code>{node.id}</code> {node.is_this ? <Badge>this one</Badge> : null}
        {node.address === null ? null : <div class="quiet">{node.address}</div>}
      </td>
      <td>{node.roles.join(", ")}</td>
      <td><Moment at={node.started_at} none="unknown" /></td>
      <td>{node.version ?? <span class="quiet">unknown</span>}</td>
      <td class="amount">
        {node.connections === null ? "–" : number(node.connections)} {node.has_more ? "and more" : null}
      </td>
      <td><State node={node} /></td>
      <td class="row-actions">
        {node.is_this && isGateway(node) ? <Drain node={node} isOnly={isOnly} again={again} /> : null}
      </td>
    </tr>
  );
}

function State({ node }: { node: Node }) {
  if (node.safe_to_remove === true) return <Badge tone="good">drained, safe to remove</Badge>;
  if (node.draining === true) return <Badge tone="warning">draining</Badge>;
  return node.is_this ? <Badge tone="good">serving</Badge> : <Badge>alive</Badge>;
}

function Drain({ node, isOnly, again }: { node: Node; isOnly: boolean; again: () => void }) {
  const path = `/gateways/${encodeURIComponent(node.id)}`;
  if (node.draining === true) {
    const resume = () =>
      propose({
        title: "Resume gateway",
        effect:
          `Gateway ${node.id} takes connections again, and /readyz says ready. ` +
          "Clients come back as load balancing and their retries bring them.",
        method: "POST",
        path: `${path}/resume`,
        done: `Gateway ${node.id} takes connections again.`,
        after: again,
      });
    return <button class="button" type="button" onClick={resume}>Resume</button>;
  }
  const alone = "It is the only gateway: nobody can connect until it is resumed.";
  const drain = () =>
    propose({
      title: "Drain gateway",
      effect:
        `Gateway ${node.id} takes no more connections, and /readyz says draining. Its clients, ` +
        `${number(node.connections ?? 0)} now, are told to reconnect, 100 each 0.2 s. They sync, so nothing is lost. ` +
        (isOnly ? alone : "They find another gateway."),
      method: "POST",
      path: `${path}/drain`,
      done: `Gateway ${node.id} drains.`,
      after: again,
    });
  return <button class="button" type="button" onClick={drain}>Drain</button>;
}
