import { dialogs } from "../state/dialogs.js";
import { start } from "../state/session.js";
import { me, phase } from "../state/session-state.js";
import { Button } from "../ui/button.js";
import { Toasts } from "../ui/toasts.js";
import { Notice } from "./notice.js";
import { Shell } from "./shell.js";
import { Naming } from "./sign-in/naming.js";
import { SignIn } from "./sign-in/sign-in.js";

/** The whole page, by its phase. */
export function App() {
  return (
    <>
      <Page />
      <Toasts isShown={dialogs.value.length === 0} />
    </>
  );
}

function Page() {
  const current = phase.value;
  switch (current.is) {
    case "starting":
      return <div class="splash" role="status" aria-label="Opening Tidings" />;
    case "elsewhere":
      return (
        <Notice
          title="Tidings is open in another tab"
          text="Only one tab at a time is connected, so that nothing shows twice."
        >
          <Button kind="primary" onClick={() => void start("takeOver")}>
            Use Tidings here
          </Button>
        </Notice>
      );
    case "unreachable":
      return (
        <Notice title="The server cannot be reached" text="Check your connection. Nothing you have written is lost.">
          <Button kind="primary" onClick={() => void start()}>
            Try again
          </Button>
        </Notice>
      );
    case "forgetful":
      return (
        <Notice
          title="This browser keeps nothing"
          text="Tidings has to remember who you are. Allow this page to store data, or leave private mode."
        >
          <Button kind="primary" onClick={() => void start()}>
            Try again
          </Button>
        </Notice>
      );
    case "signedOut":
      return <SignIn why={current.why} />;
    case "naming":
      return <Naming />;
    case "ready":
      return me.value ? <Shell me={me.value} /> : null;
  }
}
