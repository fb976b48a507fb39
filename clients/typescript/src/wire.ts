import type { components as frames } from "./generated/frames.js";
import type { components as rest } from "./generated/rest.js";

/** The bodies of REST calls, by the names of the OpenAPI document. */
export type Schemas = rest["schemas"];
/** The frames of a WebSocket and their payloads, by the names of the AsyncAPI document. */
export type Frames = frames["schemas"];

/** A frame that a client sends. */
export type ClientFrame = Frames["ClientFrame"];
/** A frame that a server sends. */
export type ServerFrame = Frames["ServerFrame"];

/** What can be wrong with a request. */
export type ErrorCode = Frames["ErrorCode"];
/** An error in the server's words. */
export type ErrorBody = Frames["ErrorBody"];
/** What content may be. */
export type ContentType = Frames["ContentType"];
/** A message as everybody sees it. */
export type Message = Frames["Message"];
/** A message as a page of its history shows it: with `status` on one's own. */
export type MessageWithStatus = Schemas["Message"];
/** The server's word that a message is durable. */
export type SendMessageAck = Frames["SendMessageAck"];
/** A member's watermarks. */
export type Receipt = Frames["Receipt"];
/** What has changed about a chat. */
export type ChatUpdated = Frames["ChatUpdated"];
/** Whether a member types. */
export type TypingIndicator = Frames["TypingIndicator"];
/** Whether a user is there. */
export type Presence = Frames["Presence"];
/** What a device shows to act for its user. */
export type Tokens = Schemas["Tokens"];
/** A user as everybody sees them. */
export type User = Schemas["User"];
/** A user as they see themselves. */
export type Me = Schemas["Me"];
/** A member of a chat. */
export type Member = Schemas["Member"];
/** A chat as the inbox of one of its members shows it. */
export type ChatSummary = Schemas["ChatSummary"];
/** A chat with its members. */
export type ChatDetails = Schemas["ChatDetails"];
/** One login of one device. */
export type Session = Schemas["Session"];
