/**
 * A strict subset of Markdown as a tree: paragraphs, headings, lists, quotes, code, emphasis and links.
 *
 * The tree has text and links only, so a view that renders it cannot insert HTML. A link has an address that
 * `safeAddress` accepts; everything else stays the text that was written. Nothing is loaded: an image is a link.
 */
export type Block =
  | { readonly kind: "paragraph"; readonly children: readonly Inline[] }
  | { readonly kind: "heading"; readonly level: number; readonly children: readonly Inline[] }
  | { readonly kind: "code"; readonly text: string }
  | { readonly kind: "quote"; readonly blocks: readonly Block[] }
  | { readonly kind: "list"; readonly start: number | undefined; readonly items: readonly (readonly Block[])[] }
  | { readonly kind: "rule" };

/** A part of a line. */
export type Inline =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "code"; readonly text: string }
  | { readonly kind: "break" }
  | { readonly kind: "strong" | "emphasis" | "strike"; readonly children: readonly Inline[] }
  | { readonly kind: "link"; readonly href: string; readonly children: readonly Inline[] };

/** Deepest nesting of quotes and lists, and of parts of a line. Deeper marks stay text. */
const DEPTH_MAX = 6;

const SCHEMES = new Set(["http:", "https:", "mailto:"]);
const ADDRESS = /(https?:\/\/[^\s<>"]+[^\s<>".,;:!?)\]}'])/;
const HAS_CONTROL = /[\s\p{Cc}\p{Cf}]/u;

const FENCE = /^ {0,3}(`{3,}|~{3,})[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*$/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const ITEM = /^( {0,3})([-*+]|(\d{1,9})[.)])[ \t]+(.*)$/;
const ESCAPABLE = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}]/u;

/** The blocks of a Markdown text. */
export function parseMarkdown(text: string): Block[] {
  return blocksOf(text.replace(/\r\n?/g, "\n").split("\n"), 0);
}

/** The text without its marks, for previews. */
export function plainText(text: string): string {
  return parseMarkdown(text).map(wordsOf).filter(Boolean).join(" ");
}

/** The normalized form of an address that a message may link to: http, https or mailto, without invisible characters. */
export function safeAddress(address: string): string | undefined {
  if (HAS_CONTROL.test(address)) return undefined;
  try {
    const { protocol, href } = new URL(address);
    return SCHEMES.has(protocol) ? href : undefined;
  } catch {
    return undefined;
  }
}

/** A text whose web addresses are links. */
export function withLinks(text: string): Inline[] {
  // Every second part is a match of the pattern's group.
  return text
    .split(ADDRESS)
    .map((part, place): Inline => {
      const href = place % 2 === 1 ? safeAddress(part) : undefined;
      return href ? { kind: "link", href, children: [{ kind: "text", text: part }] } : { kind: "text", text: part };
    })
    .filter((part) => part.kind !== "text" || part.text !== "");
}

function blocksOf(lines: readonly string[], depth: number): Block[] {
  const blocks: Block[] = [];
  let paragraph: string[] = [];
  const endParagraph = () => {
    if (paragraph.length > 0) blocks.push({ kind: "paragraph", children: inlineOf(paragraph.join("\n"), 0) });
    paragraph = [];
  };
  for (let at = 0; at < lines.length;) {
    const line = lines[at] ?? "";
    const isNested = depth < DEPTH_MAX;
    const fence = FENCE.exec(line)?.[1];
    const heading = HEADING.exec(line);
    if (line.trim() === "") {
      endParagraph();
      at += 1;
    } else if (fence) {
      endParagraph();
      const end = lines.findIndex((other, place) => place > at && other.trim().startsWith(fence));
      const last = end === -1 ? lines.length : end;
      blocks.push({ kind: "code", text: lines.slice(at + 1, last).join("\n") });
      at = last + 1;
    } else if (heading) {
      endParagraph();
      const [, marks = "", text = ""] = heading;
      blocks.push({ kind: "heading", level: marks.length, children: inlineOf(text, 0) });
      at += 1;
    } else if (RULE.test(line)) {
      endParagraph();
      blocks.push({ kind: "rule" });
      at += 1;
    } else if (isNested && QUOTE.test(line)) {
      endParagraph();
      const quoted: string[] = [];
      for (let match = QUOTE.exec(line); match; match = QUOTE.exec(lines[at] ?? "")) {
        quoted.push(match[1] ?? "");
        at += 1;
      }
      blocks.push({ kind: "quote", blocks: blocksOf(quoted, depth + 1) });
    } else if (isNested && ITEM.test(line)) {
      endParagraph();
      at = takeList(lines, at, depth, blocks);
    } else {
      paragraph.push(line);
      at += 1;
    }
  }
  endParagraph();
  return blocks;
}

/** Adds the list that begins at a line, and returns the line after it. */
function takeList(lines: readonly string[], first: number, depth: number, blocks: Block[]): number {
  const [, , , number] = ITEM.exec(lines[first] ?? "") ?? [];
  const isNumbered = number !== undefined;
  const items: Block[][] = [];
  let at = first;
  for (let item = ITEM.exec(lines[at] ?? ""); item; item = ITEM.exec(lines[at] ?? "")) {
    const [whole, , , itsNumber, text = ""] = item;
    if ((itsNumber !== undefined) !== isNumbered || RULE.test(whole)) break;
    const indent = whole.length - text.length;
    const own = [text];
    at += 1;
    // Lines that are indented to the text of an item belong to it.
    for (; at < lines.length; at += 1) {
      const line = lines[at] ?? "";
      if (line.trim() === "" || line.length - line.trimStart().length < Math.min(indent, 2)) break;
      own.push(line.slice(Math.min(indent, line.length - line.trimStart().length)));
    }
    items.push(blocksOf(own, depth + 1));
  }
  blocks.push({ kind: "list", start: isNumbered ? Number(number) : undefined, items });
  return at;
}

function inlineOf(text: string, depth: number): Inline[] {
  const parts: Inline[] = [];
  let plain = "";
  const add = (...more: Inline[]) => {
    parts.push(...withLinks(plain), ...more);
    plain = "";
  };
  for (let at = 0; at < text.length;) {
    const found = depth < DEPTH_MAX ? spanAt(text, at, depth) : undefined;
    if (found) {
      add(found.part);
      at = found.end;
    } else if (text[at] === "\\" && ESCAPABLE.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
    } else if (text[at] === "\n") {
      plain = plain.trimEnd();
      add({ kind: "break" });
      at += 1;
    } else {
      plain += text[at];
      at += 1;
    }
  }
  add();
  return parts;
}

interface Span {
  readonly part: Inline;
  readonly end: number;
}

/** The marked part that begins at a place, if one does. */
function spanAt(text: string, at: number, depth: number): Span | undefined {
  switch (text[at]) {
    case "`":
      return codeAt(text, at);
    case "_":
      return markedAt(text, at, "__", "strong", depth) ?? markedAt(text, at, "_", "emphasis", depth);
    case "*":
      return markedAt(text, at, "**", "strong", depth) ?? markedAt(text, at, "*", "emphasis", depth);
    case "~":
      return markedAt(text, at, "~~", "strike", depth);
    case "[":
      return linkAt(text, at, depth);
    case "!":
      return text[at + 1] === "[" ? linkAt(text, at + 1, depth) : undefined;
    case "<": {
      const end = text.indexOf(">", at);
      const address = end === -1 ? "" : text.slice(at + 1, end);
      const href = safeAddress(address);
      const children = [{ kind: "text", text: address } as const];
      return href ? { part: { kind: "link", href, children }, end: end + 1 } : undefined;
    }
    default:
      return undefined;
  }
}

function codeAt(text: string, at: number): Span | undefined {
  const marks = /^`+/.exec(text.slice(at))?.[0] ?? "";
  for (let end = text.indexOf(marks, at + marks.length); end !== -1; end = text.indexOf(marks, end + 1)) {
    const isExact = text[end - 1] !== "`" && text[end + marks.length] !== "`";
    const words = text.slice(at + marks.length, end).trim();
    if (isExact) return { part: { kind: "code", text: words }, end: end + marks.length };
  }
  return undefined;
}

function markedAt(
  text: string,
  at: number,
  mark: string,
  kind: "strong" | "emphasis" | "strike",
  depth: number,
): Span | undefined {
  const from = at + mark.length;
  // An underscore inside a word is a part of the word.
  const isInWord = (place: number) => mark.startsWith("_") && WORD.test(text[place] ?? "");
  if (!text.startsWith(mark, at) || /^\s?$/.test(text[from] ?? "") || isInWord(at - 1)) return undefined;
  for (let end = text.indexOf(mark, from + 1); end !== -1; end = text.indexOf(mark, end + 1)) {
    const isLonger = mark.length === 1 && (text[end + 1] === mark || text[end - 1] === mark);
    const isAfterWord = !/[\s\\]/.test(text[end - 1] ?? "");
    if (isAfterWord && !isInWord(end + mark.length) && !isLonger) {
      const children = inlineOf(text.slice(from, end), depth + 1);
      return { part: { kind, children }, end: end + mark.length };
    }
  }
  return undefined;
}

/** A link whose text begins at `open`. A link with another address than `safeAddress` accepts is text. */
function linkAt(text: string, open: number, depth: number): Span | undefined {
  let nested = 0;
  let close = open;
  for (; close < text.length; close += 1) {
    if (text[close] === "\\") close += 1;
    else if (text[close] === "[") nested += 1;
    else if (text[close] === "]" && (nested -= 1) === 0) break;
  }
  if (text[close + 1] !== "(") return undefined;
  const end = text.indexOf(")", close);
  if (end === -1) return undefined;
  const [address = ""] = text.slice(close + 2, end).trim().split(/\s/);
  const href = safeAddress(address);
  if (!href) return undefined;
  const children = inlineOf(text.slice(open + 1, close), depth + 1).flatMap(unlinked);
  const words = children.length > 0 ? children : [{ kind: "text", text: address } as const];
  return { part: { kind: "link", href, children: words }, end: end + 1 };
}

/** A part without links: a link has none inside. */
function unlinked(part: Inline): readonly Inline[] {
  if (part.kind === "link") return part.children.flatMap(unlinked);
  return "children" in part ? [{ ...part, children: part.children.flatMap(unlinked) }] : [part];
}

function wordsOf(block: Block): string {
  switch (block.kind) {
    case "paragraph":
    case "heading":
      return inlineWords(block.children);
    case "code":
      return block.text;
    case "quote":
      return block.blocks.map(wordsOf).join(" ");
    case "list":
      return block.items.map((item) => item.map(wordsOf).join(" ")).join(", ");
    case "rule":
      return "";
  }
}

function inlineWords(parts: readonly Inline[]): string {
  return parts
    .map((part) => ("children" in part ? inlineWords(part.children) : part.kind === "break" ? " " : part.text))
    .join("");
}
