import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { AdminError, act } from "../api";
import { sentence } from "./shown";

/** Something that an operator is about to have done. */
export interface Deed {
  /** What the button says: the deed, not "OK". */
  title: string;
  /** What comes of it, for whom, and what does not. */
  effect: string;
  method: "POST" | "DELETE";
  path: string;
  /** What is said when it is done. */
  done: string;
  /** Called then, so that the view shows it. */
  after: () => void;
}

const deed = signal<Deed | null>(null);
const failure = signal<string | null>(null);
const busy = signal(false);
/** What was done last, for people and for screen readers. */
const said = signal("");

/** Asks the operator to confirm a deed. Nothing is done before. */
export function propose(proposed: Deed): void {
  failure.value = null;
  deed.value = proposed;
}

async function doIt(confirmed: Deed): Promise<void> {
  busy.value = true;
  try {
    await act(confirmed.method, confirmed.path);
    said.value = confirmed.done;
    deed.value = null;
    confirmed.after();
  } catch (error) {
    failure.value = sentence(error instanceof AdminError ? error.message : String(error));
  } finally {
    busy.value = false;
  }
}

/** The dialog that asks, and the line that says what was done. Once on the page. */
export function Confirmation() {
  const dialog = useRef<HTMLDialogElement>(null);
  const proposed = deed.value;
  useEffect(() => {
    if (proposed === null) dialog.current?.close();
    else dialog.current?.showModal();
  }, [proposed]);
  useEffect(() => {
    if (said.value === "") return undefined;
    const timer = setTimeout(() => (said.value = ""), 8000);
    return () => clearTimeout(timer);
  }, [said.value]);
  return (
    <>
      <dialog
        ref={dialog}
        class="dialog"
        aria-labelledby="deed-title"
        aria-describedby="deed-effect"
        onClose={() => (deed.value = null)}
      >
        {proposed === null ? null : (
          <form method="dialog" onSubmit={(event) => (event.preventDefault(), void doIt(proposed))}>
            <h2 id="deed-title">{proposed.title}?</h2>
            <p id="deed-effect">{proposed.effect}</p>
            <p class="quiet">It is written into the audit before it is done.</p>
            {failure.value === null ? null : <p class="notice notice-bad" role="alert">{failure.value}</p>}
            <div class="dialog-actions">
              <button class="button" type="button" onClick={() => (deed.value = null)}>Cancel</button>
              <button class="button button-danger" type="submit" disabled={busy.value}>{proposed.title}</button>
            </div>
          </form>
        )}
      </dialog>
      <div class={`toast${said.value === "" ? "" : " toast-shown"}`} role="status">{said.value}</div>
    </>
  );
}
