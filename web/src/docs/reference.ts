import type { AsyncApi, Content, Message, OpenApi, Operation, Response } from "./spec";
import { nameOf, resolve } from "./spec";

/** One operation of the REST API, with its method and path. */
export interface RestEntry {
  id: string;
  method: string;
  path: string;
  operation: Operation;
}

/** A family of operations. */
export interface RestGroup {
  name: string;
  description: string;
  entries: RestEntry[];
}

/** One type of frame, with its reply and the request that it replies to. */
export interface FrameEntry {
  id: string;
  message: Message;
  answers: string[];
}

/** A link of the navigation; a search looks in `words`. */
export interface Link {
  id: string;
  label: string;
  badge?: string;
  words: string;
}

/** A part of the navigation. */
export interface LinkGroup {
  title: string;
  links: Link[];
}

const METHODS = ["get", "post", "put", "patch", "delete"];

/** The operations by family, in the order of the document's tags. */
export function restGroups(document: OpenApi): RestGroup[] {
  const entries = Object.entries(document.paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item[method];
      return operation ? [{ id: `rest-${operation.operationId}`, method: method.toUpperCase(), path, operation }] : [];
    }),
  );
  return (document.tags ?? []).map(({ name, description }) => ({
    name,
    description: description ?? "",
    entries: entries.filter((entry) => entry.operation.tags?.includes(name)),
  }));
}

/** The frames that clients send, in alphabetical order. */
export function clientFrames(document: AsyncApi): FrameEntry[] {
  const received = Object.values(document.operations).filter((operation) => operation.action === "receive");
  return received.flatMap((operation) => {
    const answers = (operation.reply?.messages ?? []).map((reference) => frameType(document, reference.$ref));
    return operation.messages.map((reference) => entry(document, nameOf(reference.$ref), answers));
  });
}

/** All other frames: the server sends them. */
export function serverFrames(document: AsyncApi): FrameEntry[] {
  const fromClient = new Set(clientFrames(document).map((frame) => frame.id));
  const all = Object.keys(document.components.messages).map((name) => entry(document, name, []));
  return all.filter((frame) => !fromClient.has(frame.id));
}

/** The responses of an operation by status, with references resolved. */
export function answers(document: OpenApi, operation: Operation): [string, Response][] {
  const responses = Object.entries(operation.responses);
  return responses.map(([status, response]) => [status, resolve<Response>(document, response)]);
}

/** The names of the examples of an operation: those of its body and of its successes. */
export function examplesOf(operation: Operation, successes: [string, Response][]): string[] {
  const shown = [json(operation.requestBody?.content), ...successes.map(([, answer]) => json(answer.content))];
  return [...new Set(shown.flatMap((one) => Object.keys(one?.examples ?? {})))];
}

/** The JSON of a body, if it has one. */
export function json(content: Record<string, Content> | undefined): Content | undefined {
  return content?.["application/json"];
}

/** The navigation of the whole reference. */
export function navigation(openapi: OpenApi, asyncapi: AsyncApi): LinkGroup[] {
  const rest = restGroups(openapi).map(({ name, entries }) => ({
    title: name,
    links: entries.map(({ id, method, path, operation }) => ({
      id,
      label: operation.operationId.replaceAll("_", " "),
      badge: method,
      words: `${method} ${path} ${operation.operationId} ${operation.summary ?? ""}`.toLowerCase(),
    })),
  }));
  const frames = (title: string, entries: FrameEntry[]) => ({
    title,
    links: entries.map(({ id, message }) => ({
      id,
      label: message.name,
      words: `${message.name} ${message.summary ?? ""}`.toLowerCase(),
    })),
  });
  return [
    {
      title: "Start",
      links: [page("overview", "REST"), page("commands", "First commands"), page("websocket", "WebSocket"), page("handshake", "Handshake")],
    },
    ...rest,
    frames("Frames of the client", clientFrames(asyncapi)),
    frames("Frames of the server", serverFrames(asyncapi)),
    { title: "Tables", links: [page("error-codes", "Error codes"), page("close-codes", "Close codes")] },
  ];
}

/** The parts of the navigation with an entry that has all words of a search. */
export function search(groups: LinkGroup[], query: string): LinkGroup[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const matching = groups.map((group) => ({
    ...group,
    links: group.links.filter((link) => words.every((word) => link.words.includes(word))),
  }));
  return matching.filter((group) => group.links.length > 0);
}

function page(id: string, label: string): Link {
  return { id, label, words: label.toLowerCase() };
}

function entry(document: AsyncApi, name: string, answers: string[]): FrameEntry {
  const message = document.components.messages[name];
  if (!message) throw new Error(`the document has no message ${name}`);
  return { id: `frame-${message.name}`, message, answers };
}

function frameType(document: AsyncApi, reference: string): string {
  return entry(document, nameOf(reference), []).message.name;
}
