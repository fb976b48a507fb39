import { useEffect } from "preact/hooks";

import { blocked, loadBlocks, unblock } from "../../state/blocks.js";
import { attempt } from "../../state/toasts.js";
import { unlessUnreachable } from "../../state/unless-unreachable.js";
import { Avatar } from "../../ui/avatar.js";
import { Button } from "../../ui/button.js";

/** The blocked users, with a way to unblock them. */
export function Blocked() {
  useEffect(() => void unlessUnreachable(loadBlocks), []);
  const users = blocked.value ?? [];
  return (
    <section class="card" aria-label="Blocked people">
      <header class="card-header">
        <h2>Blocked people</h2>
      </header>
      {users.length === 0 && <p class="card-note quiet">You have blocked nobody.</p>}
      <ul>
        {users.map((user) => (
          <li key={user.user_id} class="device">
            <Avatar id={user.user_id} name={user.display_name} size={36} />
            <span class="device-words" dir="auto">
              {user.display_name}
            </span>
            <Button
              aria-label={`Unblock ${user.display_name}`}
              onClick={() => void attempt(() => unblock(user.user_id))}
            >
              Unblock
            </Button>
          </li>
        ))}
      </ul>
    </section>
  );
}
