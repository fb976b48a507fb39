import { inline } from "./prose";
import type { Row } from "./schema-rows";
import { rows } from "./schema-rows";
import type { Schema } from "./spec";

/** The fields of a body with their types and bounds. */
export function SchemaTable({ document, schema, caption }: { document: object; schema: Schema; caption: string }) {
  return <FieldTable fields={rows(document, schema)} caption={caption} />;
}

/** The same for given fields. */
export function FieldTable({ fields, caption }: { fields: Row[]; caption: string }) {
  if (fields.length === 0) return null;
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={caption}>
      <table class="fields">
        <caption>{caption}</caption>
        <thead>
          <tr>
            <th scope="col">Field</th>
            <th scope="col">Type</th>
            <th scope="col">Meaning</th>
          </tr>
        </thead>
        <tbody>
          {fields.map((field) => (
            <Field key={field.path} field={field} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Field({ field }: { field: Row }) {
  const names = field.path.split(".");
  const within = names.slice(0, -1).map((name) => `${name}.`);
  return (
    <tr>
      <th scope="row">
        {/* The indent shows the nesting; screen readers get it as text. */}
        <span class="visually-hidden">{within.join("")}</span>
        {within.map((name) => (
          <span key={name} class="indent" aria-hidden="true" />
        ))}
        <code>{names.at(-1)}</code>
      </th>
      <td>
        <span class="type">{field.type}</span>
        {field.required && <span class="required">required</span>}
      </td>
      <td>
        {inline(field.description)}
        {field.bounds.map((bound) => (
          <span key={bound} class="bound">
            {bound}
          </span>
        ))}
      </td>
    </tr>
  );
}
