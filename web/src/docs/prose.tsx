import type { ComponentChildren } from "preact";

/** A text of the documents: paragraphs with `code` and **strong** words, the only markup in use. */
export function Prose({ text }: { text: string }) {
  return (
    <>
      {text.split(/\n{2,}/).map((paragraph) => (
        <p key={paragraph}>{inline(paragraph)}</p>
      ))}
    </>
  );
}

/** The same within a line. */
export function inline(text: string): ComponentChildren[] {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).map((part, place) => {
    if (part.startsWith("`")) return <code key={place}>{part.slice(1, -1)}</code>;
    if (part.startsWith("**")) return <strong key={place}>{part.slice(2, -2)}</strong>;
    return part;
  });
}
