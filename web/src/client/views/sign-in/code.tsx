import { useState } from "preact/hooks";

import { client } from "../../sdk.js";
import { signedIn } from "../../state/session.js";
import { signInInWords } from "../../store/failures.js";
import { Button } from "../../ui/button.js";
import { Field } from "../../ui/field.js";
import { useSite } from "./use-site.js";

const DIGITS = 6;

/** Asks for the code, and signs in once it is complete. */
export function Code({ phoneNumber, onBack }: { phoneNumber: string; onBack: () => void }) {
  const [code, setCode] = useState("");
  const [failure, setFailure] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const isDev = useSite()?.dev === true;

  const verify = async (otp: string) => {
    setBusy(true);
    setFailure(undefined);
    try {
      const { user, is_new_user: isNew } = await client.api.verifyOtp(phoneNumber, otp);
      await signedIn(user, isNew);
    } catch (problem) {
      setFailure(signInInWords(problem));
      setCode("");
      setBusy(false);
    }
  };

  const type = (text: string) => {
    const digits = text.replace(/\D/g, "").slice(0, DIGITS);
    setCode(digits);
    if (digits.length === DIGITS && digits !== code) void verify(digits);
  };

  return (
    <form
      class="step"
      onSubmit={(event) => {
        event.preventDefault();
        void verify(code);
      }}
    >
      <h1>Enter the code</h1>
      <p class="step-text">
        Sent to <strong>{phoneNumber}</strong>.{" "}
        <button type="button" class="link" onClick={onBack}>
          Another number
        </button>
      </p>
      <Field
        label="Code"
        class="code-input"
        inputMode="numeric"
        autocomplete="one-time-code"
        maxLength={DIGITS}
        error={failure}
        value={code}
        disabled={isBusy}
        onInput={(event) => type(event.currentTarget.value)}
        autofocus
        required
        {...(isDev ? { hint: "This server runs with --dev: the code is 000000." } : {})}
      />
      <Button kind="primary" type="submit" disabled={isBusy || code.length < DIGITS}>
        {isBusy ? "Signing in…" : "Sign in"}
      </Button>
    </form>
  );
}
