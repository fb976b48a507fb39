import type { RestEntry } from "./reference";
import { json } from "./reference";

/** A command that sends an example of an operation; `$TOKEN` stands for an access token. */
export function curl(origin: string, { method, path, operation }: RestEntry, example: string): string {
  const parameters = operation.parameters ?? [];
  const shown = (place: string) => parameters.filter((one) => one.in === place && one.example !== undefined);
  const filled = shown("path").reduce((url, one) => url.replace(`{${one.name}}`, String(one.example)), path);
  const query = new URLSearchParams(shown("query").map((one) => [one.name, String(one.example)])).toString();
  const lines = [`curl ${method === "GET" ? "" : `-X ${method} `}"${origin}${filled}${query && `?${query}`}"`];
  if (operation.security) lines.push(`-H "Authorization: Bearer $TOKEN"`);
  for (const one of shown("header")) lines.push(`-H "${one.name}: ${String(one.example)}"`);
  const body = json(operation.requestBody?.content)?.examples?.[example]?.value;
  if (body !== undefined) lines.push(`-H "Content-Type: application/json"`, `-d '${quoted(JSON.stringify(body))}'`);
  return lines.join(" \\\n  ");
}

/** A text within single quotes of a shell. */
function quoted(text: string): string {
  return text.replaceAll("'", `'\\''`);
}
