import type { JSX } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

type FieldProps = JSX.IntrinsicElements["input"] & { label: string; hint?: string; error?: string | undefined };

/** A text input with its label, hint and error. */
export function Field({ label, hint, error, autofocus, ...rest }: FieldProps) {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  // The `autofocus` attribute works in dialogs; elsewhere browsers honour it only once per document.
  useEffect(() => {
    if (autofocus) input.current?.focus();
  }, [autofocus]);
  const about = error ? `${id}-error` : hint ? `${id}-hint` : undefined;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        ref={input}
        id={id}
        aria-invalid={error ? true : undefined}
        aria-describedby={about}
        autofocus={autofocus}
        dir="auto"
        {...rest}
      />
      {error ? (
        <p id={`${id}-error`} class="field-error" role="alert">
          {error}
        </p>
      ) : (
        hint && (
          <p id={`${id}-hint`} class="field-hint">
            {hint}
          </p>
        )
      )}
    </div>
  );
}
