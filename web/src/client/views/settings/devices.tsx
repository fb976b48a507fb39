import type { Session } from "@tidings/client";
import { useEffect, useState } from "preact/hooks";

import { client } from "../../sdk.js";
import { inWords } from "../../store/failures.js";
import { now } from "../../state/clock.js";
import { attempt } from "../../state/toasts.js";
import { ago } from "../../store/words.js";
import { Button } from "../../ui/button.js";
import { Icon } from "../../ui/icon.js";

/** The sessions of the user, with a way to end them. */
export function Devices() {
  const [sessions, setSessions] = useState<readonly Session[]>();
  const [failure, setFailure] = useState<string>();
  const load = async () => {
    try {
      setSessions(await client.api.sessions());
    } catch (problem) {
      setFailure(inWords(problem));
    }
  };
  useEffect(() => void load(), []);

  const end = (act: () => Promise<unknown>) => void attempt(act).then(load);
  const others = sessions?.filter((session) => !session.is_current) ?? [];
  if (failure) return <p role="alert">{failure}</p>;
  if (!sessions) return <p role="status">Asking the server…</p>;
  return (
    <>
      <section class="card" aria-label="Devices">
        <ul>
          {sessions
            .toSorted((a, b) => Number(b.is_current) - Number(a.is_current))
            .map((session) => (
              <li key={session.session_id} class="device">
                <span class="device-picture">
                  <Icon name="device" />
                </span>
                <span class="device-words">
                  <strong>{session.is_current ? "This device" : "Another device"}</strong>
                  <span class="quiet">
                    Signed in {ago(Date.parse(session.created_at), now.value)}
                    {!session.is_current && `, active ${ago(Date.parse(session.last_active_at), now.value)}`}
                  </span>
                </span>
                {!session.is_current && (
                  <Button onClick={() => end(() => client.api.revokeSession(session.session_id))}>Sign out</Button>
                )}
              </li>
            ))}
        </ul>
      </section>
      {others.length > 1 && (
        <Button kind="danger" onClick={() => end(() => client.api.revokeSessions())}>
          Sign out all other devices
        </Button>
      )}
    </>
  );
}
