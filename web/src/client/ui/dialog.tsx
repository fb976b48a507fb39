import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { dialogs, noteDialog } from "../state/dialogs.js";
import { IconButton } from "./button.js";
import { Toasts } from "./toasts.js";

/** Something above the page that wants an answer first. The browser keeps the focus in it and gives it back. */
export function Dialog(props: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  kind?: "plain" | "finder";
}) {
  const { title, onClose, children, kind = "plain" } = props;
  const element = useRef<HTMLDialogElement>(null);
  // Before the next paint, and so before the next key: what is typed while the dialog opens reaches its field.
  useLayoutEffect(() => element.current?.showModal(), []);
  const [id, setId] = useState<symbol>();
  useLayoutEffect(() => {
    const noted = noteDialog();
    setId(noted.id);
    return noted.close;
  }, []);
  return (
    <dialog
      ref={element}
      class={`dialog dialog-${kind}`}
      aria-label={title}
      onClose={onClose}
      onPointerDown={(event) => event.target === element.current && onClose()}
    >
      <div class="dialog-body">
        {kind === "plain" && (
          <header class="dialog-header">
            <h2>{title}</h2>
            <IconButton icon="close" label="Close" onClick={onClose} />
          </header>
        )}
        {children}
      </div>
      <Toasts isShown={id !== undefined && dialogs.value.at(-1) === id} />
    </dialog>
  );
}

/** Asks before something that cannot be undone. */
export function Confirm(props: {
  title: string;
  text: string;
  action: string;
  onConfirm: () => void;
  onClose: () => void;
}) {
  const { title, text, action, onConfirm, onClose } = props;
  return (
    <Dialog title={title} onClose={onClose}>
      <p class="dialog-text">{text}</p>
      <div class="dialog-actions">
        <button type="button" class="button button-plain" onClick={onClose}>
          Cancel
        </button>
        <button type="button" class="button button-danger" onClick={onConfirm}>
          {action}
        </button>
      </div>
    </Dialog>
  );
}
