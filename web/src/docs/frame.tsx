import { Code } from "./code";
import { inline } from "./prose";
import type { FrameEntry } from "./reference";
import { SchemaTable } from "./schema-table";
import type { AsyncApi, Schema } from "./spec";
import { resolve } from "./spec";

/** One type of frame: its payload, its reply, and an example. */
export function Frame({ document, frame, from }: { document: AsyncApi; frame: FrameEntry; from: "client" | "server" }) {
  const { id, message, answers } = frame;
  const envelope = resolve<Schema>(document, message.payload);
  const payload = envelope.properties?.["payload"] ?? {};
  return (
    <section id={id} class="entry" aria-labelledby={`${id}-title`}>
      <div class="told">
        <h3 id={`${id}-title`}>
          <code>{message.name}</code>
        </h3>
        <p>{inline(message.summary ?? "")}</p>
        <p class="note">
          From the {from}. {requestId(envelope)}
        </p>
        {answers.length > 0 && (
          <p class="note">
            Answered by{" "}
            {answers.map((answer, place) => (
              <span key={answer}>
                {place > 0 && " or "}
                <a href={`#frame-${answer}`}>
                  <code>{answer}</code>
                </a>
              </span>
            ))}
            .
          </p>
        )}
        <SchemaTable document={document} schema={payload} caption="Payload" />
      </div>
      <div class="shown">
        {(message.examples ?? []).map(({ payload: shown }) => (
          <Code key={message.name} label={message.name} language="json" text={JSON.stringify(shown, null, 2)} />
        ))}
      </div>
    </section>
  );
}

function requestId(envelope: Schema): string {
  if (!envelope.properties?.["request_id"]) return "";
  return envelope.required?.includes("request_id") ? "With a request_id." : "A request_id is optional.";
}
