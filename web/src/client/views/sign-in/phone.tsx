import { useState } from "preact/hooks";

import { client } from "../../sdk.js";
import { inWords } from "../../store/failures.js";
import { Button } from "../../ui/button.js";
import { Field } from "../../ui/field.js";
import { Passkey } from "./passkey.js";

/** Asks for the phone number and requests a code. */
export function Phone(props: { initial: string; why: string | undefined; onAsked: (phoneNumber: string) => void }) {
  const [text, setText] = useState(props.initial);
  const [failure, setFailure] = useState<string>();
  const [isBusy, setBusy] = useState(false);

  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setFailure(undefined);
    try {
      const { phone_number: phoneNumber } = await client.api.requestOtp(text.replace(/[^\d+]/g, ""));
      props.onAsked(phoneNumber);
    } catch (problem) {
      setFailure(inWords(problem));
      setBusy(false);
    }
  };

  return (
    <form class="step" onSubmit={submit}>
      {props.why && <p class="step-why">{props.why}</p>}
      <h1>Sign in</h1>
      <p class="step-text">We send you a code to make sure that the number is yours.</p>
      <Field
        label="Phone number"
        type="tel"
        autocomplete="tel"
        inputMode="tel"
        placeholder="+1 415 555 0100"
        hint="With the country code, for example +44 or +1"
        error={failure}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        autofocus
        required
      />
      <Button kind="primary" type="submit" disabled={isBusy || text.trim() === ""}>
        {isBusy ? "One moment…" : "Continue"}
      </Button>
      <Passkey />
    </form>
  );
}
