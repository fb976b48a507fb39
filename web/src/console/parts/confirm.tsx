import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { AdminError, act } from "../api";
import { sentence } from "./shown";

/** An operator action to confirm. */
export interface Deed {
  /** The text of the button: the action, not "OK". */
  title: string;
  /** The effects of the action, and its limits. */
  effect: string;
  method: "POST" | "DELETE";
  path: string;
  /** The body of the request, if it has one. */
  body?: unknown;
  /** The message after success. */
  done: string;
  /** Called after success, so that the view reloads. */
  after: () => void;
}

const deed = signal<Deed | null>(null);
const failure = signal<string | null>(null);
const busy = signal(false);
/** The last action, also for screen readers. */
const said = signal("");

/** Asks the operator to confirm an action. Nothing is executed before. */
export function propose(proposed: Deed): void {
  failure.value = null;
  deed.value = proposed;
}

async function doIt(confirmed: Deed): Promise<void> {
  busy.value = true;
  try {
    await act(confirmed.method, confirmed.path, confirmed.body);
    said.value = confirmed.done;
    deed.value = null;
    confirmed.after();
  } catch (error) {
    failure.value = sentence(error instanceof AdminError ? error.message : String(error));
  } finally {
    busy.value = false;
  }
}

/** The confirmation dialog, and the line with the result. Once per page. */
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
