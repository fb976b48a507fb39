import type { Passkey } from "@tidings/client";
import { useEffect, useState } from "preact/hooks";

import { client } from "../../sdk.js";
import { inWords } from "../../store/failures.js";
import { now } from "../../state/clock.js";
import { arePasskeysOffered, askForPasskeys, passkeyInWords } from "../../state/passkeys.js";
import { attempt, tell } from "../../state/toasts.js";
import { ago } from "../../store/words.js";
import { Button } from "../../ui/button.js";
import { Confirm } from "../../ui/dialog.js";
import { Field } from "../../ui/field.js";
import { Icon } from "../../ui/icon.js";

/** The passkeys of the user, with ways to add and remove them. */
export function Passkeys() {
  const [passkeys, setPasskeys] = useState<readonly Passkey[]>();
  const [failure, setFailure] = useState<string>();
  const [removing, setRemoving] = useState<Passkey>();
  const isOffered = arePasskeysOffered.value;
  const load = async () => {
    try {
      setPasskeys(await client.api.passkeys());
    } catch (problem) {
      setFailure(inWords(problem));
    }
  };
  useEffect(() => void askForPasskeys(), []);
  useEffect(() => {
    if (isOffered) void load();
  }, [isOffered]);

  const remove = async ({ passkey_id: passkeyId }: Passkey) => {
    setRemoving(undefined);
    await attempt(() => client.api.removePasskey(passkeyId));
    await load();
  };

  if (isOffered === false) return <p role="status">Passkeys are not available on this page.</p>;
  if (failure) return <p role="alert">{failure}</p>;
  if (!passkeys) return <p role="status">Asking the server…</p>;
  return (
    <>
      <p class="quiet">With a passkey you sign in by fingerprint, face or PIN of your device, without a code.</p>
      {passkeys.length > 0 && (
        <section class="card" aria-label="Passkeys">
          <ul>
            {passkeys.map((passkey) => (
              <li key={passkey.passkey_id} class="device">
                <span class="device-picture">
                  <Icon name="key" />
                </span>
                <span class="device-words">
                  <strong>{passkey.name}</strong>
                  <span class="quiet">{history(passkey)}</span>
                </span>
                <Button aria-label={`Remove ${passkey.name}`} onClick={() => setRemoving(passkey)}>
                  Remove
                </Button>
              </li>
            ))}
          </ul>
        </section>
      )}
      <NewPasskey onAdded={load} />
      {removing && (
        <Confirm
          title={`Remove ${removing.name}?`}
          text="You cannot sign in with this passkey any more. Devices that are signed in stay signed in."
          action="Remove"
          onConfirm={() => void remove(removing)}
          onClose={() => setRemoving(undefined)}
        />
      )}
    </>
  );
}

function NewPasskey({ onAdded }: { onAdded: () => Promise<void> }) {
  const [name, setName] = useState("My device");
  const [failure, setFailure] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const add = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setFailure(undefined);
    try {
      await client.api.registerPasskey(name.trim());
      tell("The passkey is added.");
      await onAdded();
    } catch (problem) {
      setFailure(passkeyInWords(problem));
    }
    setBusy(false);
  };
  return (
    <form class="card card-form" onSubmit={add}>
      <Field
        label="Name of a new passkey"
        maxLength={64}
        error={failure}
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
        required
      />
      <div class="card-actions">
        <Button kind="primary" type="submit" disabled={isBusy || name.trim() === ""}>
          Add a passkey
        </Button>
      </div>
    </form>
  );
}

function history({ created_at: createdAt, last_used_at: lastUsedAt }: Passkey): string {
  const added = `Added ${ago(Date.parse(createdAt), now.value)}`;
  return lastUsedAt ? `${added}, used ${ago(Date.parse(lastUsedAt), now.value)}` : `${added}, not used yet`;
}
