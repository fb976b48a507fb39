import { useEffect, useState } from "preact/hooks";

import { client } from "../../sdk.js";
import { arePasskeysOffered, askForPasskeys, passkeyInWords } from "../../state/passkeys.js";
import { signedIn } from "../../state/session.js";
import { Button } from "../../ui/button.js";

/** A button that signs in with a passkey, where the server and the browser can. */
export function Passkey() {
  const [failure, setFailure] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  useEffect(() => void askForPasskeys(), []);

  const use = async () => {
    setBusy(true);
    setFailure(undefined);
    try {
      const { user, is_new_user: isNew } = await client.api.signInWithPasskey();
      await signedIn(user, isNew);
    } catch (problem) {
      setFailure(passkeyInWords(problem));
      setBusy(false);
    }
  };

  if (arePasskeysOffered.value !== true) return null;
  return (
    <div class="step-other">
      <Button icon="key" disabled={isBusy} onClick={() => void use()}>
        Sign in with a passkey
      </Button>
      {failure && (
        <p class="field-error" role="alert">
          {failure}
        </p>
      )}
    </div>
  );
}
