import { parseMarkdown, withLinks, type Block, type Inline } from "../../store/markdown.js";

const EMOJI_ONLY =
  /^(?:\p{Extended_Pictographic}\u{fe0f}?(?:\u{200d}\p{Extended_Pictographic}\u{fe0f}?)*|\p{Emoji_Modifier}|\s){1,12}$/u;

/** The text of a message. Markdown is rendered; elsewhere addresses become links, and everything else is plain text. */
export function Text({ id, content, contentType }: { id: string; content: string; contentType: string }) {
  switch (contentType) {
    case "application/vnd.tidings.encrypted":
      return <span id={id} class="text text-quiet">Encrypted message</span>;
    case "application/json":
      return (
        <code id={id} class="text text-code">
          {content}
        </code>
      );
    case "text/markdown":
      return (
        <div id={id} class="text text-markdown">
          <Blocks blocks={parseMarkdown(content)} />
        </div>
      );
  }
  if (EMOJI_ONLY.test(content)) {
    return (
      <span id={id} class="text text-emoji">
        {content}
      </span>
    );
  }
  return (
    <span id={id} class="text">
      <Inlines parts={withLinks(content)} />
    </span>
  );
}

function Blocks({ blocks }: { blocks: readonly Block[] }) {
  return (
    <>
      {blocks.map((block, place) => (
        <BlockView key={place} block={block} />
      ))}
    </>
  );
}

function BlockView({ block }: { block: Block }) {
  switch (block.kind) {
    case "paragraph":
      return (
        <p dir="auto">
          <Inlines parts={block.children} />
        </p>
      );
    case "heading":
      // The headings of the page are its own; those of a message are only emphasized.
      return (
        <p class="text-heading" dir="auto">
          <Inlines parts={block.children} />
        </p>
      );
    case "code":
      return (
        <pre dir="ltr">
          <code>{block.text}</code>
        </pre>
      );
    case "quote":
      return (
        <blockquote dir="auto">
          <Blocks blocks={block.blocks} />
        </blockquote>
      );
    case "list": {
      const items = block.items.map((item, place) => (
        <li key={place} dir="auto">
          <Blocks blocks={item} />
        </li>
      ));
      return block.start === undefined ? <ul>{items}</ul> : <ol start={block.start}>{items}</ol>;
    }
    case "rule":
      return <hr />;
  }
}

function Inlines({ parts }: { parts: readonly Inline[] }) {
  return (
    <>
      {parts.map((part, place) => (
        <InlineView key={place} part={part} />
      ))}
    </>
  );
}

function InlineView({ part }: { part: Inline }) {
  switch (part.kind) {
    case "text":
      return <>{part.text}</>;
    case "break":
      return <br />;
    case "code":
      return <code>{part.text}</code>;
    case "strong":
      return (
        <strong>
          <Inlines parts={part.children} />
        </strong>
      );
    case "emphasis":
      return (
        <em>
          <Inlines parts={part.children} />
        </em>
      );
    case "strike":
      return (
        <s>
          <Inlines parts={part.children} />
        </s>
      );
    case "link":
      // The tooltip shows where a link leads, whatever its text says.
      return (
        <a href={part.href} title={part.href} target="_blank" rel="noopener noreferrer">
          <Inlines parts={part.children} />
        </a>
      );
  }
}
