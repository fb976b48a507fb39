import assert from "node:assert/strict";
import { test } from "node:test";

import { parseMarkdown, plainText, safeAddress, withLinks, type Block, type Inline } from "../src/client/store/markdown.js";

/** A short notation of a tree, so that a test reads like a page. */
function shown(text: string): string {
  return parseMarkdown(text).map(block).join(" ");
}

function block(one: Block): string {
  switch (one.kind) {
    case "paragraph":
      return `p(${inline(one.children)})`;
    case "heading":
      return `h${one.level}(${inline(one.children)})`;
    case "code":
      return `pre(${one.text})`;
    case "quote":
      return `quote(${one.blocks.map(block).join(" ")})`;
    case "list":
      return `${one.start ?? "ul"}(${one.items.map((item) => item.map(block).join(" ")).join(" | ")})`;
    case "rule":
      return "rule";
  }
}

function inline(parts: readonly Inline[]): string {
  return parts
    .map((part) => {
      switch (part.kind) {
        case "text":
          return part.text;
        case "break":
          return "/";
        case "code":
          return `code(${part.text})`;
        case "link":
          return `a<${part.href}>(${inline(part.children)})`;
        default:
          return `${part.kind}(${inline(part.children)})`;
      }
    })
    .join("");
}

/** All addresses of links in a tree. */
function addresses(text: string): string[] {
  const ofInline = (part: Inline): string[] => [
    ...(part.kind === "link" ? [part.href] : []),
    ...("children" in part ? part.children.flatMap(ofInline) : []),
  ];
  const ofBlock = (one: Block): string[] => {
    if (one.kind === "quote") return one.blocks.flatMap(ofBlock);
    if (one.kind === "list") return one.items.flat().flatMap(ofBlock);
    return "children" in one ? one.children.flatMap(ofInline) : [];
  };
  return parseMarkdown(text).flatMap(ofBlock);
}

test("the marks of Markdown become a tree", () => {
  const cases: [string, string][] = [
    ["plain", "p(plain)"],
    ["one\ntwo\n\nthree", "p(one/two) p(three)"],
    ["# Title #\n### Third", "h1(Title) h3(Third)"],
    ["**strong** and *soft*, __strong__ and _soft_", "p(strong(strong) and emphasis(soft), strong(strong) and emphasis(soft))"],
    ["**a *b* c**", "p(strong(a emphasis(b) c))"],
    ["~~gone~~ `code **raw**` ``a`b``", "p(strike(gone) code(code **raw**) code(a`b))"],
    ["snake_case_name 2 * 3 * 4", "p(snake_case_name 2 * 3 * 4)"],
    ["\\*literal\\* a\\b", "p(*literal* a\\b)"],
    ["- a\n- b\n  - c\n- d", "ul(p(a) | p(b) ul(p(c)) | p(d))"],
    ["3. a\n4. b", "3(p(a) | p(b))"],
    ["> a\n> > b\n\nc", "quote(p(a) quote(p(b))) p(c)"],
    ["```js\n<b>*a*</b>\n```\nafter", "pre(<b>*a*</b>) p(after)"],
    ["```\nnever closed", "pre(never closed)"],
    ["a\n\n---\n\nb", "p(a) rule p(b)"],
    ["**never closed", "p(**never closed)"],
  ];
  for (const [text, tree] of cases) assert.equal(shown(text), tree, text);
});

test("links lead to http, https and mailto only", () => {
  assert.equal(shown("[here](https://a.example/x)"), "p(a<https://a.example/x>(here))");
  assert.equal(shown("![a picture](https://a.example/x.png)"), "p(a<https://a.example/x.png>(a picture))");
  assert.equal(shown("<mailto:ada@a.example>"), "p(a<mailto:ada@a.example>(mailto:ada@a.example))");
  assert.equal(shown("see https://a.example/b_c_d."), "p(see a<https://a.example/b_c_d>(https://a.example/b_c_d).)");
  assert.equal(shown('[t](https://a.example "title")'), "p(a<https://a.example/>(t))");
  assert.equal(shown("[a [b](https://b.example) c](https://a.example)"), "p(a<https://a.example/>(a b c))", "no link in a link");
  const refused = [
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    " javascript:alert(1)",
    "java\tscript:alert(1)",
    "java\u200bscript:alert(1)",
    "\u0001javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    "file:///etc/passwd",
    "blob:1",
    "//a.example",
    "/api/v1/users/me",
    "",
  ];
  for (const address of refused) {
    assert.equal(safeAddress(address), undefined, address);
    assert.deepEqual(addresses(`[click](${address}) <${address}> ![x](${address})`), [], address);
  }
  assert.deepEqual(withLinks("javascript://a.example/%0aalert(1)"), [
    { kind: "text", text: "javascript://a.example/%0aalert(1)" },
  ]);
});

test("HTML stays text", () => {
  const hostile = [
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "<a href='javascript:alert(1)'>x</a>",
    '**<svg/onload=alert(1)>**',
    '[<img src=x onerror=alert(1)>](https://a.example)',
    "&lt;script&gt;",
    "<!-- -->",
  ];
  for (const text of hostile) {
    const words = shown(text);
    assert.ok(words.includes("<") || words.includes("&lt;"), `${text} became ${words}`);
  }
  assert.equal(shown("<b>x</b>"), "p(<b>x</b>)");
  const [link] = addresses('[x](https://a.example/"onmouseover="alert(1))');
  assert.ok(link && !link.includes('"'), "a quote in an address is encoded");
});

test("hostile nesting is bounded and fast", () => {
  const deep = [">".repeat(4000), "- ".repeat(2000), "*a **b ".repeat(500), "[".repeat(4000), "`".repeat(4000), "~~".repeat(2000)];
  const mixed = ["![](".repeat(1000), "_".repeat(4000), "* ".repeat(2000), "(".repeat(2000) + "[a](".repeat(400)];
  const started = performance.now();
  for (const text of [...deep, ...mixed]) parseMarkdown(text);
  const took = performance.now() - started;
  assert.ok(took < 2000, `ten hostile messages took ${took} ms`);
  const levels = (blocks: readonly Block[]): number =>
    1 + Math.max(0, ...blocks.map((one) => (one.kind === "quote" ? levels(one.blocks) : 0)));
  assert.ok(levels(parseMarkdown("> ".repeat(2000) + "x")) < 10);
});

test("any text is parsed without failure, and no word is lost", () => {
  const alphabet = ["a", " ", "\n", "*", "_", "`", "[", "]", "(", ")", "<", ">", "#", "-", "1.", "~~", "\\", "https://a.example", "🙂", "!"];
  let seed = 7;
  const random = () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  for (let run = 0; run < 2000; run += 1) {
    const text = Array.from({ length: 40 }, () => alphabet[Math.floor(random() * alphabet.length)]).join("");
    const count = (words: string) => [...words].filter((letter) => letter === "🙂").length;
    assert.equal(count(shown(text)), count(text), JSON.stringify(text));
    for (const href of addresses(text)) assert.match(href, /^https:/);
  }
});

test("a preview has the words without the marks", () => {
  assert.equal(plainText("# Hi\n\n**Ada**, see [this](https://a.example):\n- one\n- `two`"), "Hi Ada, see this: one, two");
});
