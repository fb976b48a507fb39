/** Most bytes of a reaction. */
const REACTION_BYTES_MAX = 64;

const SPACE_OR_CONTROL = /[\p{White_Space}\p{Cc}\p{Cs}]/u;
const VARIATION_SELECTOR = /^\p{Variation_Selector}$/u;
/** An emoji that is shown as text unless a variation selector follows. */
const TEXT_EMOJI = /^(?=\p{Emoji})\P{Emoji_Presentation}$/u;
const ASCII = /^[\0-\x7f]$/;
const EMOJI_STYLE = "\ufe0f";
const KEYCAP = "\u20e3";
/** The flags of England, Scotland and Wales consist of tags, which are invisible elsewhere. */
const TAG_FLAG = /\u{1F3F4}\u{E0067}\u{E0062}(?:\u{E0065}\u{E006E}\u{E0067}|\u{E0073}\u{E0063}\u{E0074}|\u{E0077}\u{E006C}\u{E0073})\u{E007F}/gu;
/** A joiner between two emoji makes them one. Whether one after a letter has an effect is left to the server. */
const JOINER = /([\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f])\u200d(?=\p{Extended_Pictographic})|([\p{L}\p{M}])[\u200c\u200d]/gu;
/** Characters that are not seen, and a braille pattern without dots. */
const INVISIBLE = /[\p{Cf}\p{Co}\p{Zl}\p{Zp}\u2800]|(?!\ufe0f)\p{Default_Ignorable_Code_Point}/u;

/**
 * A reaction as the server stores it: composed (NFC), and without variation selectors that change nothing. Two reactions
 * that look the same are the same one.
 */
export function normalReaction(text: string): string {
  const chars = [...text];
  const styled: string[] = [];
  for (const [n, char] of chars.entries()) {
    if (!VARIATION_SELECTOR.test(char) || isEmojiStyle(styled.at(-1), char, chars[n + 1])) {
      styled.push(char);
    }
  }
  return styled.join("").normalize("NFC");
}

/** Whether the variation selector makes the character before it an emoji. */
function isEmojiStyle(before: string | undefined, char: string, after: string | undefined): boolean {
  const isText = before !== undefined && TEXT_EMOJI.test(before) && (!ASCII.test(before) || after === KEYCAP);
  return char === EMOJI_STYLE && isText;
}

/**
 * Whether a text may be a reaction: an emoji or a short code without spaces and invisible characters. The server also
 * refuses letters that look like others, which takes more tables than a client should have.
 */
export function isReaction(text: string): boolean {
  const bytes = new TextEncoder().encode(text).length;
  if (bytes > REACTION_BYTES_MAX || SPACE_OR_CONTROL.test(text)) {
    return false;
  }
  const normal = normalReaction(text);
  return normal !== "" && !INVISIBLE.test(normal.replace(TAG_FLAG, "").replace(JOINER, "$1$2"));
}
