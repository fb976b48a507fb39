/** A reference within the same document. */
export interface Ref {
  $ref: string;
}

/** The parts of a JSON schema that the page uses. */
export interface Schema {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  oneOf?: Schema[];
  allOf?: Schema[];
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  maxItems?: number;
  pattern?: string;
}

/** One parameter of an operation. */
export interface Parameter {
  name: string;
  in: "path" | "query" | "header";
  required?: boolean;
  description?: string;
  schema: Schema;
  example?: unknown;
}

/** A body, with examples by name. */
export interface Content {
  schema?: Schema;
  examples?: Record<string, { value: unknown }>;
}

/** One response of an operation. */
export interface Response {
  description: string;
  headers?: Record<string, Ref | { description?: string }>;
  content?: Record<string, Content>;
  "x-error-codes"?: string[];
}

/** One operation of the REST API. */
export interface Operation {
  operationId: string;
  summary?: string;
  description?: string;
  tags?: string[];
  parameters?: Parameter[];
  requestBody?: { content: Record<string, Content>; required?: boolean };
  responses: Record<string, Response | Ref>;
  security?: unknown[];
}

/** The parts of the OpenAPI document that the page uses. */
export interface OpenApi {
  info: { title: string; version: string; description?: string };
  tags?: { name: string; description?: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { headers?: Record<string, { description?: string }> };
}

/** One type of frame. */
export interface Message {
  name: string;
  summary?: string;
  payload: Schema;
  examples?: { payload: unknown }[];
}

/** The server's action on frames of a type: it receives them from clients, or sends them. */
export interface FrameOperation {
  action: "receive" | "send";
  messages: Ref[];
  reply?: { messages: Ref[] };
}

/** A row of the table of error codes. */
export interface ErrorCode {
  code: string;
  http_status: number;
  retry: string;
  description: string;
}

/** A row of the table of close codes. */
export interface CloseCode {
  code: number;
  reason: string;
  description: string;
  reconnect_delay_ms: number;
}

/** A response that refuses a handshake. */
export interface Refusal {
  http_status: number;
  error: string;
  description: string;
}

/** The parts of the AsyncAPI document that the page uses. */
export interface AsyncApi {
  info: { description?: string };
  channels: Record<string, { address: string; bindings?: { ws?: { headers?: Schema; query?: Schema } } }>;
  operations: Record<string, FrameOperation>;
  components: { messages: Record<string, Message>; schemas: Record<string, Schema> };
  "x-error-codes": ErrorCode[];
  "x-close-codes": CloseCode[];
  "x-handshake-refusals": Refusal[];
}

/** Resolves a value or reference of a document. A dangling reference is a defect of the document. */
export function resolve<T extends object>(document: object, value: T | Ref): T {
  let found: unknown = value;
  for (let steps = 0; isRef(found); steps += 1) {
    if (steps > 10) throw new Error(`the reference ${found.$ref} leads in a circle`);
    found = follow(document, found.$ref);
  }
  return found as T;
}

/** The last part of a reference, which is the name of its target. */
export function nameOf(reference: string): string {
  return reference.slice(reference.lastIndexOf("/") + 1);
}

function isRef(value: unknown): value is Ref {
  return typeof value === "object" && value !== null && "$ref" in value && typeof value.$ref === "string";
}

function follow(document: object, reference: string): unknown {
  let place: unknown = document;
  for (const part of reference.replace(/^#\//, "").split("/")) {
    const name = decodeURIComponent(part).replace(/~1/g, "/").replace(/~0/g, "~");
    place = typeof place === "object" && place !== null ? (place as Record<string, unknown>)[name] : undefined;
  }
  if (place === undefined) throw new Error(`the reference ${reference} leads nowhere`);
  return place;
}
