// Holds docs/openapi.json, docs/asyncapi.json and docs/asyncapi-events.json against what their own communities say they have to be: the published
// JSON schemas of OpenAPI, and the parser of AsyncAPI. Prints what is wrong and exits 1.

import { readFile } from "node:fs/promises";

import { Parser } from "@asyncapi/parser";
import { Validator } from "@seriousme/openapi-schema-validator";

/** How the parser counts an error; what is milder is advice. */
const SEVERITY_ERROR = 0;

const docs = new URL("../../docs/", import.meta.url);
const read = (name) => readFile(new URL(name, docs), "utf8");

async function openapiErrors() {
  const { valid, errors } = await new Validator().validate(JSON.parse(await read("openapi.json")));
  if (valid) return [];
  if (typeof errors === "string") return [errors];
  return errors.map(({ instancePath, message }) => `${instancePath}: ${message}`);
}

async function asyncapiErrors(name) {
  const { diagnostics } = await new Parser().parse(await read(name));
  const errors = diagnostics.filter(({ severity }) => severity === SEVERITY_ERROR);
  return errors.map(({ path, message }) => `${path.join(".")}: ${message}`);
}

const found = [
  ...(await openapiErrors()).map((error) => `docs/openapi.json ${error}`),
  ...(await asyncapiErrors("asyncapi.json")).map((error) => `docs/asyncapi.json ${error}`),
  ...(await asyncapiErrors("asyncapi-events.json")).map((error) => `docs/asyncapi-events.json ${error}`),
];
for (const error of found) console.error(error);
process.exitCode = found.length > 0 ? 1 : 0;
