import { dismiss, toasts } from "../state/toasts.js";
import { IconButton } from "./button.js";

/** The toasts at the edge of the page. */
export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((toast) => (
        <div key={toast.id} class={`toast ${toast.isFailure ? "toast-failure" : ""}`}>
          <span>{toast.text}</span>
          <IconButton icon="close" label="Dismiss" size={16} onClick={() => dismiss(toast.id)} />
        </div>
      ))}
    </div>
  );
}
