const LINK = /(https?:\/\/[^\s<>"]+[^\s<>".,;:!?)\]}'])/g;
const EMOJI_ONLY =
  /^(?:\p{Extended_Pictographic}\u{fe0f}?(?:\u{200d}\p{Extended_Pictographic}\u{fe0f}?)*|\p{Emoji_Modifier}|\s){1,12}$/u;

/** The text of a message. URLs become links; everything else is plain text. */
export function Text({ content, contentType }: { content: string; contentType: string }) {
  if (contentType === "application/vnd.tidings.encrypted")
    return <span class="text text-quiet">Encrypted message</span>;
  if (contentType === "application/json") return <code class="text text-code">{content}</code>;
  if (EMOJI_ONLY.test(content)) return <span class="text text-emoji">{content}</span>;
  return (
    <span class="text">
      {content.split(LINK).map((part, place) =>
        // Every second part is a match of the pattern's group.
        place % 2 === 1 ? (
          <a key={place} href={part} target="_blank" rel="noopener noreferrer">
            {part}
          </a>
        ) : (
          part
        ),
      )}
    </span>
  );
}
