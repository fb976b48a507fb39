import { useState } from "preact/hooks";

/** Time for which a button shows that it has copied. */
const COPIED_MS = 1500;

/** A block of code with a button that copies it. */
export function Code({ label, text, language }: { label: string; text: string; language: "json" | "shell" }) {
  return (
    <figure class="code">
      <figcaption>
        <span>{label}</span>
        <Copy text={text} label={label} />
      </figcaption>
      {/* Wide code scrolls, so it must be reachable by keyboard. */}
      <pre tabIndex={0} aria-label={label}>
        <code>{language === "json" ? coloured(text) : text}</code>
      </pre>
    </figure>
  );
}

function Copy({ text, label }: { text: string; label: string }) {
  const [said, say] = useState("Copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
    } catch {
      // A page without a secure origin has no clipboard; the text can still be selected.
      say("Select it to copy");
    }
    setTimeout(() => say("Copy"), COPIED_MS);
  };
  return (
    <button type="button" class="copy" onClick={copy} aria-label={`${said}: ${label}`}>
      <span aria-live="polite">{said}</span>
    </button>
  );
}

/** JSON with its names, texts and other values told apart. */
function coloured(text: string) {
  return text.split(/("(?:[^"\\]|\\.)*"(?:\s*:)?)/).map((part, place) => {
    if (!part.startsWith('"')) return part;
    return (
      <span key={place} class={part.endsWith(":") ? "name" : "text"}>
        {part}
      </span>
    );
  });
}
