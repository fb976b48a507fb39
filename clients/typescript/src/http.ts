import { ApiError, detailsOf } from "./errors.js";
import type { paths } from "./generated/rest.js";
import type { ErrorBody } from "./wire.js";

export type Method = "get" | "post" | "put" | "patch" | "delete";

/** The routes of the contract that have this method. */
export type Route<M extends Method> = {
  [P in keyof paths]: paths[P][M] extends { responses: unknown } ? P : never;
}[keyof paths];

type Operation<P extends keyof paths, M extends Method> = NonNullable<paths[P][M]>;
type Json<T> = T extends { content: { "application/json": infer B } } ? B : undefined;

/** The body of a successful response, as the contract describes it. */
export type Answer<P extends keyof paths, M extends Method> =
  Operation<P, M> extends { responses: infer R }
    ? R extends { 200: infer A }
      ? Json<A>
      : R extends { 201: infer A }
        ? Json<A>
        : R extends { 202: infer A }
          ? Json<A>
          : undefined
    : never;

/** The parameters and body of a call. */
export type Request<P extends keyof paths, M extends Method> = {
  [Part in "path" | "query"]?: Operation<P, M> extends { parameters: Record<Part, infer V> }
    ? V
    : Operation<P, M> extends { parameters: { [K in Part]?: infer V } }
      ? V
      : never;
} & {
  body?: Operation<P, M> extends { requestBody?: infer B } ? Json<NonNullable<B>> : never;
  idempotencyKey?: string | undefined;
  /** Timeout of the call, with its whole response; 10 s by default. */
  timeoutMs?: number;
};

const TIMEOUT_MS = 10_000;

/** Makes one call and parses the response. Every failure is an `ApiError`. */
export class Http {
  readonly #baseUrl: string;
  readonly #fetch: typeof globalThis.fetch;

  constructor(baseUrl: string, fetch: typeof globalThis.fetch) {
    this.#baseUrl = baseUrl;
    this.#fetch = fetch;
  }

  async call<M extends Method, P extends Route<M>>(
    method: M,
    route: P,
    request: Request<P, M>,
    token?: string,
  ): Promise<Answer<P, M>> {
    const { timeoutMs = TIMEOUT_MS } = request;
    const headers: Record<string, string> = {};
    if (token !== undefined) {
      headers["authorization"] = `Bearer ${token}`;
    }
    if (request.idempotencyKey !== undefined) {
      headers["idempotency-key"] = request.idempotencyKey;
    }
    const init: RequestInit = { method: method.toUpperCase(), headers, signal: AbortSignal.timeout(timeoutMs) };
    if (request.body !== undefined) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(request.body);
    }
    let answer: Response;
    let text: string;
    try {
      answer = await this.#fetch(this.#baseUrl + fill(route, request.path) + query(request.query), init);
      text = await answer.text();
    } catch (cause) {
      throw new ApiError(`${this.#baseUrl} did not answer; try again when it can be reached`, {
        code: "UNREACHABLE",
        cause,
      });
    }
    if (answer.ok && text === "") {
      return undefined as Answer<P, M>;
    }
    const body = parse(text);
    if (answer.ok && typeof body === "object") {
      return body as unknown as Answer<P, M>;
    }
    throw refusal(answer.status, answer.headers, body);
  }
}

function fill(route: string, values: unknown): string {
  const known = new Map(Object.entries(values ?? {}));
  return route.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(known.get(name))));
}

function query(values: unknown): string {
  const given = Object.entries(values ?? {}).filter(([, value]) => value !== undefined && value !== null);
  return given.length === 0 ? "" : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function refusal(status: number, headers: Headers, body: unknown): ApiError {
  const error = (body as { error?: ErrorBody & { request_id?: string } } | null | undefined)?.error;
  if (typeof error?.code !== "string") {
    return new ApiError(`the answer has status ${status} and cannot be read; is this a Tidings server?`, {
      code: "UNREADABLE",
      status,
    });
  }
  const retryAfter = Number.parseInt(headers.get("retry-after") ?? "", 10);
  return new ApiError(error.message, {
    code: error.code,
    status,
    details: detailsOf(error),
    retryAfterSeconds: Number.isNaN(retryAfter) ? undefined : retryAfter,
    requestId: error.request_id ?? headers.get("x-request-id") ?? undefined,
  });
}
