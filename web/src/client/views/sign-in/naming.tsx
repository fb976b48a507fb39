import { useState } from "preact/hooks";

import { nameMyself } from "../../state/session.js";
import { Avatar } from "../../ui/avatar.js";
import { Button } from "../../ui/button.js";
import { Field } from "../../ui/field.js";
import { me } from "../../state/session-state.js";
import { inWords } from "../../store/failures.js";
import { Frame } from "./frame.js";
import { useSite } from "./use-site.js";

/** Asks a new user for a display name. */
export function Naming() {
  const [name, setName] = useState("");
  const [failure, setFailure] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const isDev = useSite()?.dev === true;

  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await nameMyself(name.trim(), isDev);
    } catch (problem) {
      setFailure(inWords(problem));
      setBusy(false);
    }
  };

  return (
    <Frame>
      <form class="step" onSubmit={submit}>
        <Avatar id={me.value?.user_id ?? ""} name={name} size={64} />
        <h1>What is your name?</h1>
        <p class="step-text">This is how others see you. You can change it at any time.</p>
        <Field
          label="Your name"
          autocomplete="name"
          maxLength={64}
          error={failure}
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
          autofocus
          required
        />
        <Button kind="primary" type="submit" disabled={isBusy || name.trim() === ""}>
          Start
        </Button>
      </form>
    </Frame>
  );
}
