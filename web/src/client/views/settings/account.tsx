import type { Me } from "@tidings/client";
import { useState } from "preact/hooks";

import { client } from "../../sdk.js";
import { deleteAccount } from "../../state/session.js";
import { attempt, tell } from "../../state/toasts.js";
import { Button } from "../../ui/button.js";
import { Dialog } from "../../ui/dialog.js";
import { Field } from "../../ui/field.js";

/** The export and the deletion of the account. */
export function Account({ me }: { me: Me }) {
  const [isExporting, setExporting] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  const save = async () => {
    setExporting(true);
    if (await attempt(async () => download(await client.api.exportMe()))) tell("Your data is in your downloads.");
    setExporting(false);
  };
  return (
    <>
      <section class="card card-form" aria-label="Your data">
        <h2>Your data</h2>
        <p class="quiet">Your profile, devices, contacts, chats and all messages that you have written, as one file.</p>
        <div class="card-actions">
          <Button disabled={isExporting} onClick={() => void save()}>
            {isExporting ? "Exporting…" : "Export my data"}
          </Button>
        </div>
      </section>
      <section class="card card-form" aria-label="Delete the account">
        <h2>Delete the account</h2>
        <p class="quiet">You leave all groups and are signed out everywhere. This cannot be undone.</p>
        <div class="card-actions">
          <Button kind="danger" onClick={() => setDeleting(true)}>
            Delete my account
          </Button>
        </div>
      </section>
      {isDeleting && <Deletion me={me} onClose={() => setDeleting(false)} />}
    </>
  );
}

/** Asks for the name before the account is deleted. */
function Deletion({ me, onClose }: { me: Me; onClose: () => void }) {
  const [name, setName] = useState("");
  const [erases, setErases] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    await attempt(() => deleteAccount(erases));
    setBusy(false);
  };
  return (
    <Dialog title="Delete your account?" onClose={onClose}>
      <form onSubmit={submit}>
        <label class="choices-row">
          <input type="checkbox" checked={erases} onChange={(event) => setErases(event.currentTarget.checked)} />
          <span>
            <span class="choices-words">Erase my messages too</span>
            <span class="quiet">Otherwise they stay, under the name “Deleted account”.</span>
          </span>
        </label>
        <Field
          label="Your name, to confirm"
          autocomplete="off"
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
          required
        />
        <div class="dialog-actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="danger" type="submit" disabled={isBusy || name.trim() !== me.display_name}>
            Delete for good
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** Hands a document to the browser as a file. */
function download(document_: unknown): void {
  const url = URL.createObjectURL(new Blob([JSON.stringify(document_, null, 2)], { type: "application/json" }));
  const link = Object.assign(document.createElement("a"), { href: url, download: "tidings-export.json" });
  link.click();
  // The browser has begun to read it by the next turn of its event loop at the latest.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
