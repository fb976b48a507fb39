import type { ComponentChildren } from "preact";

import { inline } from "./prose";
import { FieldTable } from "./schema-table";
import { rows } from "./schema-rows";
import type { AsyncApi } from "./spec";

/** The handshake of a connection, and its refusals. */
export function Handshake({ document }: { document: AsyncApi }) {
  const channel = Object.values(document.channels)[0];
  const { headers, query } = channel?.bindings?.ws ?? {};
  return (
    <section id="handshake" class="page" aria-labelledby="handshake-title">
      <h2 id="handshake-title">Handshake</h2>
      <p class="route">
        <span class="method get">GET</span> <code>{channel?.address}</code>
      </p>
      {headers && <FieldTable caption="Headers" fields={rows(document, headers)} />}
      {query && <FieldTable caption="Query, for browsers" fields={rows(document, query)} />}
      <Table
        caption="Refusals: plain HTTP, with error, message and details"
        heads={["Status", "Error", "Meaning"]}
        lines={document["x-handshake-refusals"].map((refusal) => ({
          id: `refusal-${refusal.error}`,
          cells: [refusal.http_status, <code key="error">{refusal.error}</code>, inline(refusal.description)],
        }))}
      />
    </section>
  );
}

/** Every error code of frames and of the REST API. */
export function ErrorCodes({ document }: { document: AsyncApi }) {
  return (
    <section id="error-codes" class="page" aria-labelledby="error-codes-title">
      <h2 id="error-codes-title">Error codes</h2>
      <Table
        caption="In error frames, and in the failures of the REST API with their status"
        heads={["Code", "Status", "Meaning", "Try again"]}
        lines={document["x-error-codes"].map((error) => ({
          id: `error-${error.code}`,
          cells: [
            <code key="code">{error.code}</code>,
            error.http_status,
            inline(error.description),
            inline(error.retry),
          ],
        }))}
      />
    </section>
  );
}

/** Every close code of the server. */
export function CloseCodes({ document }: { document: AsyncApi }) {
  return (
    <section id="close-codes" class="page" aria-labelledby="close-codes-title">
      <h2 id="close-codes-title">Close codes</h2>
      <Table
        caption="A connection_closing frame says the reason, and when to come back, before the connection is closed"
        heads={["Code", "Reason", "Meaning", "Come back after"]}
        lines={document["x-close-codes"].map((close) => ({
          id: `close-${close.reason}`,
          cells: [
            close.code,
            <code key="reason">{close.reason}</code>,
            close.description,
            `${close.reconnect_delay_ms} ms`,
          ],
        }))}
      />
    </section>
  );
}

interface Line {
  id: string;
  cells: ComponentChildren[];
}

function Table({ caption, heads, lines }: { caption: string; heads: string[]; lines: Line[] }) {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={caption}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {lines.map(({ id, cells }) => (
            <tr key={id} id={id}>
              {cells.map((cell, place) => (
                <td key={heads[place]}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
