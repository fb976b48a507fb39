import type { ComponentChildren } from "preact";

import { useAnswer } from "../answer";
import type { ChatOfUser, Connection, Session, UserAnswer } from "../answers";
import { count, mutedUntil, number } from "../format";
import { propose } from "../parts/confirm";
import { Badge, Facts, Id, Moment, Panel, Table } from "../parts/facts";
import { Empty, Shown } from "../parts/shown";
import { href } from "../route";

/** One user: sessions, connections, and the watermarks in their chats. */
export function User({ id }: { id: string }) {
  const [answer, again] = useAnswer<UserAnswer>(`/users/${encodeURIComponent(id)}`);
  return (
    <Shown of={answer} retry={again}>
      {(user) => (
        <>
          <header class="view-head">
            <h1>{user.display_name}</h1>
            {user.connections.length > 0 ? <Badge tone="good">connected</Badge> : <Badge>away</Badge>}
            {user.restrictions.suspended_since === null ? null : <Badge tone="bad">suspended</Badge>}
            <button class="button" type="button" onClick={again}>Refresh</button>
            <Suspension user={user} again={again} />
          </header>
          <Facts
            of={[
              ["User", <Id id={user.user_id} />],
              ...(user.external_id === null
                ? []
                : [["Id at the identity provider", <Id id={user.external_id} />] as [string, ComponentChildren]]),
              ["Signed up", <Moment at={user.created_at} />],
              ...(user.restrictions.suspended_since === null
                ? []
                : [["Suspended", <Moment at={user.restrictions.suspended_since} />] as [string, ComponentChildren]]),
              ["Last seen", user.connections.length > 0 ? "now" : <Moment at={user.last_seen_at} />],
            ]}
          />
          <Sessions user={user} again={again} />
          <Connections user={user} again={again} />
          <Chats user={user} />
        </>
      )}
    </Shown>
  );
}

/** Suspends the user, or ends that. */
function Suspension({ user, again }: { user: UserAnswer; again: () => void }) {
  const path = `/users/${encodeURIComponent(user.user_id)}`;
  const suspend = () =>
    propose({
      title: "Suspend user",
      effect:
        `${user.display_name} can neither sign in, read nor write until the suspension ends: every token is refused, ` +
        "and sockets close within a second. Messages that were sent stay, and others can write to the user.",
      method: "POST",
      path: `${path}/suspend`,
      body: {},
      done: `${user.display_name} is suspended.`,
      after: again,
    });
  const resume = () =>
    propose({
      title: "End suspension",
      effect: `${user.display_name} can sign in, read and write again.`,
      method: "POST",
      path: `${path}/resume`,
      done: `${user.display_name} is no longer suspended.`,
      after: again,
    });
  return user.restrictions.suspended_since === null ? (
    <button class="button button-danger" type="button" onClick={suspend}>Suspend</button>
  ) : (
    <button class="button" type="button" onClick={resume}>End suspension</button>
  );
}

function Sessions({ user, again }: { user: UserAnswer; again: () => void }) {
  const path = `/users/${encodeURIComponent(user.user_id)}/sessions`;
  const revokeAll = () =>
    propose({
      title: "Revoke all sessions",
      effect:
        `${user.display_name} is signed out on ${count(user.sessions.length, "device")}: tokens are void at once, ` +
        "sockets close within a second, and no notifications are sent there. They can sign in again.",
      method: "DELETE",
      path,
      done: `All sessions of ${user.display_name} are revoked.`,
      after: again,
    });
  const revoke = (session: Session) =>
    propose({
      title: "Revoke session",
      effect:
        `Device ${session.device_id} of ${user.display_name} is signed out: its tokens are void at once, its sockets ` +
        "close within a second, and no notifications are sent there. The other devices stay.",
      method: "DELETE",
      path: `${path}/${encodeURIComponent(session.session_id)}`,
      done: `The session of device ${session.device_id} is revoked.`,
      after: again,
    });
  const all = <button class="button button-danger" type="button" onClick={revokeAll}>Revoke all</button>;
  return (
    <Panel
      title="Sessions"
      note={count(user.sessions.length, "device")}
      actions={user.sessions.length > 1 ? all : undefined}
    >
      {user.sessions.length === 0 ? (
        <Empty>Signed in nowhere here. Users of another system have no sessions of ours.</Empty>
      ) : (
        <Table label="Sessions" heads={["Device and session", "Last active", "Expires", "State", ""]}>
          {user.sessions.map((session) => (
            <tr key={session.session_id}>
              <td><code>{session.device_id}</code><div class="quiet"><Id id={session.session_id} /></div></td>
              <td><Moment at={session.last_active_at} /></td>
              <td><time dateTime={session.expires_at}>{session.expires_at.slice(0, 10)}</time></td>
              <td>
                {session.is_connected ? <Badge tone="good">connected</Badge> : null}{" "}
                {session.is_notified ? <Badge>notified</Badge> : null}
              </td>
              <td class="row-actions">
                <button class="button button-danger" type="button" onClick={() => revoke(session)}>Revoke</button>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

function Connections({ user, again }: { user: UserAnswer; again: () => void }) {
  const close = (connection: Connection) =>
    propose({
      title: "Close connection",
      effect:
        `The socket of device ${connection.device_id} closes with server_shutdown. Its client reconnects after about ` +
        "a second and syncs, so nothing is lost. To keep the device out, revoke its session instead.",
      method: "DELETE",
      path: `/connections/${encodeURIComponent(connection.connection_id)}`,
      done: "The connection is closed; its client reconnects.",
      after: again,
    });
  return (
    <Panel title="Connections" note={count(user.connections.length, "socket")}>
      {user.connections.length === 0 ? (
        <Empty>No connection now: messages wait, and devices that are registered are notified.</Empty>
      ) : (
        <Table label="Connections" heads={["Device and connection", "Gateway", "Since", ""]}>
          {user.connections.map((connection) => (
            <tr key={connection.connection_id}>
              <td><code>{connection.device_id}</code><div class="quiet"><Id id={connection.connection_id} /></div></td>
              <td><code>{connection.gateway}</code></td>
              <td><Moment at={connection.connected_at} /></td>
              <td class="row-actions">
                <button class="button" type="button" onClick={() => close(connection)}>Close</button>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

function Chats({ user }: { user: UserAnswer }) {
  const shown = count(user.chats.length, "chat");
  return (
    <Panel title="Chats" note={user.has_more ? `the ${shown} with the newest activity` : shown}>
      {user.chats.length === 0 ? (
        <Empty>A member of no chat.</Empty>
      ) : (
        <Table label="Chats" heads={["Chat", "Role", "Last activity", "Received", "Read", "Head", "Unread"]}>
          {user.chats.map((chat) => (
            <tr key={chat.chat_id}>
              <td>
                <a href={href({ view: "chat", id: chat.chat_id })}>{chat.name ?? chat.chat_id}</a>{" "}
                <Badge>{chat.type ?? "unknown"}</Badge>
                {chat.muted_until === null ? null : <div class="quiet">muted {mutedUntil(chat.muted_until)}</div>}
              </td>
              <td>{chat.role}</td>
              <td><Moment at={chat.last_active_at} /></td>
              <td class="amount">{number(chat.delivered_sequence)}</td>
              <td class="amount">{number(chat.read_sequence)}</td>
              <td class="amount">{number(chat.head_sequence)}</td>
              <td class="amount"><Unread chat={chat} /></td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

function Unread({ chat }: { chat: ChatOfUser }) {
  const more = chat.unread_count_exact ? "" : "+";
  const count = `${number(chat.unread_count)}${more}`;
  return chat.unread_count === 0 ? <>{count}</> : <b>{count}</b>;
}
