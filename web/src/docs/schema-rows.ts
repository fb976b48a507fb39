import type { Schema } from "./spec";
import { nameOf, resolve } from "./spec";

/** One field of a body, as a line of a table. */
export interface Row {
  /** The path of the field: `messages[].content`. */
  path: string;
  type: string;
  required: boolean;
  /** The bounds of its values. */
  bounds: string[];
  description: string;
}

/** Most levels of nested fields. Tidings' schemas are less deep; the bound stops recursive schemas. */
const DEPTH_MAX = 6;

/** The fields of a schema with all nested fields, each parent first. */
export function rows(document: object, schema: Schema, prefix = "", depth = 0): Row[] {
  const { properties, required } = fields(document, schema);
  return Object.entries(properties).flatMap(([name, property]) => {
    const path = prefix + name;
    const own = { path, ...shape(document, property), required: required.includes(name) };
    return depth >= DEPTH_MAX ? [own] : [own, ...inner(document, property, path, depth)];
  });
}

function inner(document: object, property: Schema, path: string, depth: number): Row[] {
  const schema = present(document, property);
  if (schema.items) return rows(document, present(document, schema.items), `${path}[].`, depth + 1);
  return rows(document, schema, `${path}.`, depth + 1);
}

/** The fields of an object, merged from all its parts if it has several. */
function fields(document: object, schema: Schema): { properties: Record<string, Schema>; required: string[] } {
  const whole = resolve<Schema>(document, schema);
  const parts = (whole.allOf ?? []).map((part) => fields(document, part));
  return {
    properties: Object.assign({}, ...parts.map((part) => part.properties), whole.properties),
    required: [...parts.flatMap((part) => part.required), ...(whole.required ?? [])],
  };
}

function shape(document: object, property: Schema): Pick<Row, "type" | "bounds" | "description"> {
  const schema = present(document, property);
  const described = property.description ?? (property.oneOf ?? []).find((one) => one.description)?.description;
  const bounds = [...boundsOf(schema), ...(schema.items ? boundsOf(resolve<Schema>(document, schema.items)) : [])];
  return { type: typeOf(document, property), bounds, description: described ?? "" };
}

/** The schema of the value if it is not `null`. */
function present(document: object, schema: Schema): Schema {
  const given = schema.oneOf?.find((one) => one.type !== "null") ?? schema;
  return resolve<Schema>(document, given);
}

/** The type of a value in words: `string (uuid)`, `Message[]`, `integer or null`. */
export function typeOf(document: object, schema: Schema): string {
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.oneOf) return schema.oneOf.map((one) => typeOf(document, one)).join(" or ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.items) return `${typeOf(document, schema.items)}[]`;
  const types = typeof schema.type === "string" ? [schema.type] : (schema.type ?? ["any"]);
  const format = schema.format && schema.format !== "int64" && schema.format !== "int32" ? ` (${schema.format})` : "";
  return types.map((type) => (type === "null" ? type : type + format)).join(" or ");
}

function boundsOf(schema: Schema): string[] {
  const bounds: string[] = [];
  if (schema.enum) bounds.push(schema.enum.filter((value) => value !== null).join(", "));
  if (schema.minimum !== undefined) bounds.push(`≥ ${schema.minimum}`);
  if (schema.maximum !== undefined) bounds.push(`≤ ${schema.maximum}`);
  if (schema.minLength !== undefined) bounds.push(`${schema.minLength} character or more`);
  if (schema.maxLength !== undefined) bounds.push(`${schema.maxLength} characters at most`);
  if (schema.maxItems !== undefined) bounds.push(`${schema.maxItems} entries at most`);
  if (schema.pattern !== undefined) bounds.push(schema.pattern);
  return bounds;
}
