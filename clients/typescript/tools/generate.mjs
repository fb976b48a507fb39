// Writes the types of the contract from its two documents: `npm run generate`, or with `--check` only compares.

import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import openapiTS, { astToString } from "openapi-typescript";

const docs = new URL("../../../docs/", import.meta.url);
const generated = new URL("../src/generated/", import.meta.url);

const openapi = JSON.parse(await readFile(new URL("openapi.json", docs), "utf8"));
const asyncapi = JSON.parse(await readFile(new URL("asyncapi.json", docs), "utf8"));
// The schemas of both documents are JSON Schema, so those of the second can be read as if they were of the first.
const frames = {
  openapi: "3.1.0",
  info: asyncapi.info,
  paths: {},
  components: { schemas: asyncapi.components.schemas },
};

const isCheck = process.argv.includes("--check");
for (const [name, source, document] of [
  ["rest.ts", "docs/openapi.json", openapi],
  ["frames.ts", "docs/asyncapi.json", frames],
]) {
  const file = fileURLToPath(new URL(name, generated));
  const types = astToString(await openapiTS(document));
  const text = `// Generated from ${source} by \`npm run generate\`; not to be edited.\n\n${types}`;
  if (!isCheck) {
    await writeFile(file, text);
  } else if ((await readFile(file, "utf8")) !== text) {
    console.error(`src/generated/${name} is not what ${source} says: run \`npm run generate\``);
    process.exitCode = 1;
  }
}
