import { dismiss, toasts } from "../state/toasts.js";
import { IconButton } from "./button.js";

/**
 * The toasts at the edge of the page. An open dialog makes everything outside of it inert, so the topmost dialog shows
 * them; the live region is present before its first toast.
 */
export function Toasts({ isShown }: { isShown: boolean }) {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {(isShown ? toasts.value : []).map(({ id, text, isFailure, action }) => (
        <div key={id} class={`toast ${isFailure ? "toast-failure" : ""}`}>
          <span dir="auto">{text}</span>
          {action && (
            <button
              type="button"
              class="toast-action"
              onClick={() => {
                dismiss(id);
                action.act();
              }}
            >
              {action.label}
            </button>
          )}
          <IconButton icon="close" label="Dismiss" size={16} onClick={() => dismiss(id)} />
        </div>
      ))}
    </div>
  );
}
