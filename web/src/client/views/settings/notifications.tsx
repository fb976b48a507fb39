import { useEffect, useState } from "preact/hooks";

import { pushState, switchPushOff, switchPushOn, type PushState } from "../../local/push.js";
import { unlessUnreachable } from "../../state/unless-unreachable.js";
import { attempt } from "../../state/toasts.js";
import { Button } from "../../ui/button.js";

const WORDS: Record<PushState, string> = {
  unsupported: "This browser cannot show notifications of closed pages.",
  unavailable: "This server does not send notifications to browsers.",
  blocked: "Notifications are blocked for this page. Allow them in the settings of your browser.",
  off: "Be told of new messages while this page is closed.",
  on: "You are told of new messages while this page is closed.",
};

/** Whether this browser gets push notifications while the page is closed. */
export function Notifications() {
  const [state, setState] = useState<PushState>();
  const [isBusy, setBusy] = useState(false);
  useEffect(() => void unlessUnreachable(async () => setState(await pushState())), []);
  const change = async (act: () => Promise<PushState>) => {
    setBusy(true);
    await attempt(async () => setState(await act()));
    setBusy(false);
  };
  return (
    <section class="card card-form" aria-label="Notifications on this device">
      <p>{state ? WORDS[state] : "Asking the server…"}</p>
      {state === "off" && (
        <Button kind="primary" icon="bell" disabled={isBusy} onClick={() => void change(switchPushOn)}>
          Switch on
        </Button>
      )}
      {state === "on" && (
        <Button icon="bellOff" disabled={isBusy} onClick={() => void change(switchPushOff)}>
          Switch off
        </Button>
      )}
    </section>
  );
}
