import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import type { Page } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/**
 * The accessibility violations that axe finds on a page, one line each.
 *
 * Transitions and animations are switched off first: a colour that is still changing has a contrast of its own. Waiting
 * for their end would not do, because one can begin at any time, for example when a button appears under the pointer.
 */
export async function barriers(page: Page): Promise<string[]> {
  await page.evaluate(() => {
    const still = new CSSStyleSheet();
    still.replaceSync("*, *::before, *::after { transition: none !important; animation: none !important; }");
    document.adoptedStyleSheets.push(still);
  });
  await page.evaluate(axe);
  const results = await page.evaluate(() => (window as unknown as { axe: typeof import("axe-core") }).axe.run(document));
  return results.violations.flatMap(({ id, nodes }) =>
    nodes.map((node) => `${id}: ${node.target.join(" ")}: ${node.failureSummary}`),
  );
}
