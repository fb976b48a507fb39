import { useState } from "preact/hooks";

import { Code } from "./code";
import { curl } from "./curl";
import { Prose, inline } from "./prose";
import type { RestEntry } from "./reference";
import { answers, examplesOf, json } from "./reference";
import { FieldTable, SchemaTable } from "./schema-table";
import { typeOf } from "./schema-rows";
import type { OpenApi, Response } from "./spec";

/** One operation of the REST API: parameters, responses, and an example of both. */
export function RestOperation({ document, entry }: { document: OpenApi; entry: RestEntry }) {
  const { id, method, path, operation } = entry;
  const body = json(operation.requestBody?.content)?.schema;
  const all = answers(document, operation);
  const successes = all.filter(([status]) => status.startsWith("2"));
  const failures = all.filter(([status]) => !status.startsWith("2"));
  return (
    <section id={id} class="entry" aria-labelledby={`${id}-title`}>
      <div class="told">
        <h3 id={`${id}-title`}>{inline(operation.summary ?? operation.operationId)}</h3>
        <p class="route">
          <span class={`method ${method.toLowerCase()}`}>{method}</span> <code>{path}</code>
        </p>
        <Prose text={operation.description ?? ""} />
        {operation.security && (
          <p class="note">
            Needs an access token: <code>$TOKEN</code> of the <a href="#commands">first commands</a>.
          </p>
        )}
        <FieldTable caption="Parameters" fields={parameters(document, entry)} />
        {body && <SchemaTable document={document} schema={body} caption="Request" />}
        {successes.map(([status, answer]) => (
          <Success key={status} document={document} status={status} answer={answer} />
        ))}
        <Failures failures={failures} />
      </div>
      <Examples entry={entry} successes={successes} />
    </section>
  );
}

function parameters(document: OpenApi, { operation }: RestEntry) {
  return (operation.parameters ?? []).map((one) => ({
    path: one.name,
    type: `${typeOf(document, one.schema)}, in ${one.in}`.replace(" or null", ""),
    required: one.required === true,
    bounds: one.schema.minimum === undefined ? [] : [`≥ ${one.schema.minimum}`],
    description: one.description ?? "",
  }));
}

function Success({ document, status, answer }: { document: OpenApi; status: string; answer: Response }) {
  const schema = json(answer.content)?.schema;
  const caption = `Answer ${status}: ${answer.description}`;
  const headers = Object.keys(answer.headers ?? {});
  return (
    <>
      {schema && <SchemaTable document={document} schema={schema} caption={caption} />}
      {!schema && <p class="caption">{caption}</p>}
      <p class="headers">
        Headers:{" "}
        {headers.map((header) => (
          <code key={header}>{header}</code>
        ))}
      </p>
    </>
  );
}

function Failures({ failures }: { failures: [string, Response][] }) {
  return (
    <div class="failures">
      <p class="caption">Failures</p>
      <ul>
        {failures.flatMap(([status, answer]) =>
          (answer["x-error-codes"] ?? []).map((code) => (
            <li key={code}>
              <a href={`#error-${code}`}>
                <span class="status">{status}</span> <code>{code}</code>
              </a>
            </li>
          )),
        )}
      </ul>
    </div>
  );
}

function Examples({ entry, successes }: { entry: RestEntry; successes: [string, Response][] }) {
  const content = json(entry.operation.requestBody?.content);
  const cases = examplesOf(entry.operation, successes);
  const [chosen, choose] = useState(cases[0] ?? "example");
  const command = curl(location.origin, entry, chosen);
  const body = content?.examples?.[chosen]?.value;
  const answer = successes.find(([, success]) => json(success.content)?.examples?.[chosen]);
  const value = answer && json(answer[1].content)?.examples?.[chosen]?.value;
  return (
    <div class="shown">
      {cases.length > 1 && (
        <label class="cases">
          Example{" "}
          <select value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
            {cases.map((name) => (
              <option key={name} value={name}>
                {name.replaceAll("_", " ")}
              </option>
            ))}
          </select>
        </label>
      )}
      {command !== undefined && <Code label="curl" language="shell" text={command} />}
      {command === undefined && body !== undefined && (
        <Code label="Body" language="json" text={JSON.stringify(body, null, 2)} />
      )}
      {answer && <Code label={`Answer ${answer[0]}`} language="json" text={JSON.stringify(value, null, 2)} />}
    </div>
  );
}
