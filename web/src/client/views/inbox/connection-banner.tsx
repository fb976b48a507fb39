import { useEffect, useState } from "preact/hooks";

import { connection } from "../../state/session-state.js";
import { Icon } from "../../ui/icon.js";

/** Grace period: shorter interruptions are not shown. */
const PATIENCE_MS = 1500;

/** Shows that there is no connection, and that no message is lost. */
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
