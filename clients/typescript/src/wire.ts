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

/** The error codes of the contract. */
export type ErrorCode = Frames["ErrorCode"];
/** An error of the server. */
export type ErrorBody = Frames["ErrorBody"];
/** The format of the content of a message. */
export type ContentType = Frames["ContentType"];
/** A message as every member sees it. */
export type Message = Frames["Message"];
/** A message in a page of history: with `status` on the user's own. */
export type MessageWithStatus = Schemas["Message"];
/** What updates have changed in a message, besides its content. */
export type MessageState = Frames["StateBody"];
/** A reaction to a message, with the number of members who have it. */
export type Reaction = Frames["ReactionBody"];
/** An update of a message, with a sequence of its own among the messages of the chat. */
export type MessageUpdate = Frames["UpdateBody"];
/** An update, and its message in the new state or a later one; without the message if it was deleted or has expired. */
export type MessageUpdated = Frames["MessageUpdated"];
/** The confirmation of the server that a message or an update is durable. */
export type SendMessageAck = Frames["SendMessageAck"];
/** A member's watermarks. */
export type Receipt = Frames["Receipt"];
/** A change of a chat or its members. */
export type ChatUpdated = Frames["ChatUpdated"];
/** Whether a member is typing. */
export type TypingIndicator = Frames["TypingIndicator"];
/** The presence of a user. */
export type Presence = Frames["Presence"];
/** The tokens with which a device acts for its user. */
export type Tokens = Schemas["Tokens"];
/** A user as other users see them. */
export type User = Schemas["User"];
/** A user as they see themselves. */
export type Me = Schemas["Me"];
/** A passkey of the user. */
export type Passkey = Schemas["PasskeySummary"];
/** A member of a chat. */
export type Member = Schemas["Member"];
/** An invitation of the user to a group. */
export type Invitation = Schemas["Invitation"];
/** A chat as the inbox of one of its members shows it. */
export type ChatSummary = Schemas["ChatSummary"];
/** A chat with its members. */
export type ChatDetails = Schemas["ChatDetails"];
/** One login of one device. */
export type Session = Schemas["Session"];
