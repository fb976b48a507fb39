import { useEffect, useState } from "preact/hooks";

import { connection } from "../../state/session-state.js";
import { Icon } from "../../ui/icon.js";

/** A connection that is back within this time was no news to anybody. */
const PATIENCE_MS = 1500;

/** Says that there is no connection, and that nothing is lost by it. */
export function ConnectionBanner() {
  const isDown = connection.value !== "online";
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    if (!isDown) {
      setShown(false);
      return undefined;
    }
    const timer = setTimeout(() => setShown(true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [isDown]);
  return (
    <div role="status">
      {isShown && (
        <p class="banner">
          <Icon name="warning" size={16} />
          <span>
            <strong>Connecting…</strong> What you write is kept and sent later.
          </span>
        </p>
      )}
    </div>
  );
}
