import type { Access } from "./access.js";
import { ApiError } from "./errors.js";
import type { paths } from "./generated/rest.js";
import type { Answer, Http, Method, Request, Route } from "./http.js";
import { createPasskey, usePasskey } from "./passkeys.js";
import type { Schemas } from "./wire.js";

/** A page of a list: its rows in `data`, and the cursor of the next page in `pagination`. */
export interface Page<Rows> {
  data: Rows;
  pagination: Schemas["Pagination"];
}

/** Timeout of an export: the server streams all messages of the user. */
const EXPORT_TIMEOUT_MS = 10 * 60_000;

type DataOf<P extends keyof paths, M extends Method> = Answer<P, M> extends { data: infer D } ? D : never;

/** Length and start of a page. */
export interface PageOptions {
  limit?: number;
  cursor?: string;
}

/**
 * The REST API for one device of one user: a method for each route. Tokens are renewed before they expire and after a
 * refusal. Every failure is an `ApiError`.
 */
export class Api {
  readonly #http: Http;
  readonly #access: Access;

  constructor(http: Http, access: Access) {
    this.#http = http;
    this.#access = access;
  }

  /** Name, versions and limits of this service. */
  async service(): Promise<Schemas["Service"]> {
    return (await this.#http.call("get", "/api/v1", {})).data;
  }

  /** The public keys of the service's tokens, for servers that verify them. */
  jwks(): Promise<unknown> {
    return this.#http.call("get", "/.well-known/jwks.json", {});
  }

  /** Requests a one-time code. */
  async requestOtp(phoneNumber: string): Promise<Schemas["OtpRequested"]> {
    const body = { phone_number: phoneNumber };
    return (await this.#http.call("post", "/api/v1/auth/request-otp", { body })).data;
  }

  /** Signs in with a one-time code. `displayName` is for a new user; an existing user keeps theirs. */
  async verifyOtp(phoneNumber: string, otp: string, displayName?: string): Promise<Schemas["SignedIn"]> {
    const body = {
      phone_number: phoneNumber,
      otp,
      device_id: await this.#access.deviceId(),
      ...(displayName === undefined ? {} : { display_name: displayName }),
    };
    const { data } = await this.#http.call("post", "/api/v1/auth/verify-otp", { body });
    await this.#access.signedIn(data.user.user_id, data.tokens);
    return data;
  }

  /**
   * Signs in with a passkey that the user chooses: no phone number, no code. For browsers where `supportsPasskeys()`.
   * Rejects with a `DOMException` if the user declines.
   */
  async signInWithPasskey(): Promise<Schemas["SignedIn"]> {
    return this.verifyPasskey(await usePasskey(await this.passkeyChallenge()));
  }

  /** Creates a passkey on this device, or one that the user carries, and registers it. For browsers. */
  async registerPasskey(name: string): Promise<Schemas["PasskeySummary"]> {
    return this.addPasskey(name, await createPasskey(await this.beginPasskey()));
  }

  /** The options for `navigator.credentials.get`, in their JSON form. */
  async passkeyChallenge(): Promise<Schemas["PasskeyRequestOptions"]> {
    return (await this.#http.call("post", "/api/v1/auth/passkeys/challenges", {})).data;
  }

  /** Signs in with the answer of an authenticator. */
  async verifyPasskey(credential: Schemas["PasskeyAuthentication"]): Promise<Schemas["SignedIn"]> {
    const body = { device_id: await this.#access.deviceId(), credential };
    const { data } = await this.#http.call("post", "/api/v1/auth/passkeys/sessions", { body });
    await this.#access.signedIn(data.user.user_id, data.tokens);
    return data;
  }

  /** The options for `navigator.credentials.create`, in their JSON form. */
  beginPasskey(): Promise<Schemas["PasskeyCreationOptions"]> {
    return this.#data("post", "/api/v1/auth/passkeys/registrations", {});
  }

  /** Registers a passkey that an authenticator has created. */
  addPasskey(name: string, credential: Schemas["PasskeyRegistration"]): Promise<Schemas["PasskeySummary"]> {
    return this.#data("post", "/api/v1/auth/passkeys", { body: { name, credential } });
  }

  /** The passkeys of the user, oldest first. */
  async passkeys(): Promise<Schemas["PasskeySummary"][]> {
    return (await this.#data("get", "/api/v1/auth/passkeys", {})).passkeys;
  }

  /** Removes a passkey. Sessions that it opened stay. */
  removePasskey(passkeyId: string): Promise<undefined> {
    return this.#call("delete", "/api/v1/auth/passkeys/{passkey_id}", { path: { passkey_id: passkeyId } });
  }

  /** Ends the session on the server. `client.signOut()` also deletes it here. */
  logout(): Promise<undefined> {
    return this.#call("post", "/api/v1/auth/logout", {});
  }

  /** A ticket for one WebSocket handshake. */
  wsTicket(): Promise<Schemas["WsTicket"]> {
    return this.#data("post", "/api/v1/auth/ws-ticket", {});
  }

  /** The signed-in user. */
  me(): Promise<Schemas["Me"]> {
    return this.#data("get", "/api/v1/users/me", {});
  }

  /** Changes the user's own name or presence visibility. */
  updateMe(body: Schemas["UpdateMe"]): Promise<Schemas["Me"]> {
    return this.#data("patch", "/api/v1/users/me", { body });
  }

  /**
   * All data of the user as one document: the profile, sessions, devices, contacts, chats, and the user's own messages.
   * The server allows a few exports a day.
   */
  exportMe(): Promise<Schemas["Export"]> {
    return this.#data("get", "/api/v1/users/me/export", { timeoutMs: EXPORT_TIMEOUT_MS });
  }

  /**
   * Deletes the account on the server, permanently. `client.deleteAccount()` also deletes its data here. `confirm` is the
   * user's own id.
   */
  deleteMe(body: Schemas["DeleteMe"]): Promise<Schemas["AccountDeletion"]> {
    return this.#data("delete", "/api/v1/users/me", { body });
  }

  /** Another user. */
  user(userId: string): Promise<Schemas["User"]> {
    return this.#data("get", "/api/v1/users/{user_id}", { path: { user_id: userId } });
  }

  /** The users with these phone numbers, in the order of the request; `null` for an unknown number. */
  async lookUpUsers(phoneNumbers: string[]): Promise<(Schemas["User"] | null)[]> {
    const body = { phone_numbers: phoneNumbers };
    return (await this.#data("post", "/api/v1/users/lookup", { body })).results;
  }

  /** The sessions of the user. */
  async sessions(): Promise<Schemas["Session"][]> {
    return (await this.#data("get", "/api/v1/sessions", {})).sessions;
  }

  /** Ends one of the user's sessions; its device is disconnected within a second. */
  revokeSession(sessionId: string): Promise<undefined> {
    return this.#call("delete", "/api/v1/sessions/{session_id}", { path: { session_id: sessionId } });
  }

  /** Ends all of the user's sessions except this one, or including it. Returns their number. */
  async revokeSessions(options: { includeCurrent?: boolean } = {}): Promise<number> {
    const query = { include_current: options.includeCurrent ?? false };
    return (await this.#data("delete", "/api/v1/sessions", { query })).revoked_count;
  }

  /** Registers a device of the user for push notifications, which are sent while the user has no connection. */
  registerPush(deviceId: string, body: Schemas["PushRegistration"]): Promise<undefined> {
    return this.#call("put", "/api/v1/devices/{device_id}/push", { path: { device_id: deviceId }, body });
  }

  /** Ends the push notifications of a device. */
  unregisterPush(deviceId: string): Promise<undefined> {
    return this.#call("delete", "/api/v1/devices/{device_id}/push", { path: { device_id: deviceId } });
  }

  /** A page of the user's contacts, ordered by id. */
  contacts(query: PageOptions = {}): Promise<Page<Schemas["Contacts"]>> {
    return this.#call("get", "/api/v1/contacts", { query });
  }

  /** Adds a contact. Two users who have added each other are mutual contacts. */
  addContact(userId: string): Promise<Schemas["User"]> {
    return this.#data("put", "/api/v1/contacts/{user_id}", { path: { user_id: userId } });
  }

  /** Removes a contact. Succeeds if there is none. */
  removeContact(userId: string): Promise<undefined> {
    return this.#call("delete", "/api/v1/contacts/{user_id}", { path: { user_id: userId } });
  }

  /** A page of the blocked users, ordered by id. */
  blocks(query: PageOptions = {}): Promise<Page<Schemas["Blocks"]>> {
    return this.#call("get", "/api/v1/blocks", { query });
  }

  /**
   * Blocks a user. Until the block is removed, neither can write to the other in their direct chat, and the blocked
   * user sees nothing of this user's presence. The blocked user is not notified.
   */
  block(userId: string): Promise<undefined> {
    return this.#call("put", "/api/v1/blocks/{user_id}", { path: { user_id: userId } });
  }

  /** Removes a block. Succeeds if there is none. */
  unblock(userId: string): Promise<undefined> {
    return this.#call("delete", "/api/v1/blocks/{user_id}", { path: { user_id: userId } });
  }

  /** The pending invitations of the user to groups, newest first. */
  async invitations(): Promise<Schemas["Invitation"][]> {
    return (await this.#data("get", "/api/v1/invitations", {})).invitations;
  }

  /** Accepts an invitation. The user becomes a member of the group, which is returned. */
  acceptInvitation(chatId: string): Promise<Schemas["ChatDetails"]> {
    return this.#data("post", "/api/v1/invitations/{chat_id}/accept", { path: { chat_id: chatId } });
  }

  /** Declines an invitation. Succeeds if there is none. For 30 days no member of the group can invite the user again. */
  declineInvitation(chatId: string): Promise<undefined> {
    return this.#call("delete", "/api/v1/invitations/{chat_id}", { path: { chat_id: chatId } });
  }

  /** Reports a message, a user or a chat to the operators. */
  report(body: Schemas["FileReport"], idempotencyKey?: string): Promise<Schemas["Reported"]> {
    return this.#data("post", "/api/v1/reports", { body, idempotencyKey });
  }

  /** The current presence of a user, as far as it is visible to the caller. */
  presence(userId: string): Promise<Schemas["Presence"]> {
    return this.#data("get", "/api/v1/users/{user_id}/presence", { path: { user_id: userId } });
  }

  /** The current presence of up to 100 users, in the order of the request, as far as it is visible to the caller. */
  async queryPresence(userIds: string[]): Promise<Schemas["Presence"][]> {
    return (await this.#data("post", "/api/v1/presence/query", { body: { user_ids: userIds } })).presences;
  }

  /**
   * Creates a chat; an existing direct chat is returned instead. Users who want to be asked first are invited and not
   * members: `invited_user_ids` names them.
   */
  createChat(body: Schemas["CreateChat"], idempotencyKey?: string): Promise<Schemas["ChatDetails"]> {
    return this.#data("post", "/api/v1/chats", { body, idempotencyKey });
  }

  /** A page of the inbox, newest activity first. */
  chats(query: PageOptions = {}): Promise<Page<Schemas["Inbox"]>> {
    return this.#call("get", "/api/v1/chats", { query });
  }

  /** One chat with its members and the user's watermarks. */
  chat(chatId: string): Promise<Schemas["ChatDetails"]> {
    return this.#data("get", "/api/v1/chats/{chat_id}", { path: { chat_id: chatId } });
  }

  /** Renames a group, or changes the lifetime of later messages of a chat. */
  updateChat(chatId: string, body: Schemas["UpdateChat"]): Promise<Schemas["ChatDetails"]> {
    return this.#data("patch", "/api/v1/chats/{chat_id}", { path: { chat_id: chatId }, body });
  }

  /**
   * Adds a member to a group. A user who wants to be asked first is invited instead: then `invited` is `true`, and the
   * user is not a member.
   */
  addMember(chatId: string, body: Schemas["AddMember"], idempotencyKey?: string): Promise<Schemas["Member"]> {
    const request = { path: { chat_id: chatId }, body, idempotencyKey };
    return this.#data("post", "/api/v1/chats/{chat_id}/members", request);
  }

  /** Changes a member's role; `owner` transfers the ownership of the group. */
  changeRole(chatId: string, userId: string, role: Schemas["Member"]["role"]): Promise<Schemas["Member"]> {
    const request = { path: { chat_id: chatId, user_id: userId }, body: { role } };
    return this.#data("patch", "/api/v1/chats/{chat_id}/members/{user_id}", request);
  }

  /** Removes a member from a group. */
  removeMember(chatId: string, userId: string): Promise<undefined> {
    const path = { chat_id: chatId, user_id: userId };
    return this.#call("delete", "/api/v1/chats/{chat_id}/members/{user_id}", { path });
  }

  /** Leaves a group. */
  leave(chatId: string): Promise<undefined> {
    return this.#call("post", "/api/v1/chats/{chat_id}/leave", { path: { chat_id: chatId } });
  }

  /** Mutes a chat for this user, permanently if `durationSeconds` is absent. */
  mute(chatId: string, durationSeconds?: number): Promise<Schemas["Muted"]> {
    const body = durationSeconds === undefined ? {} : { duration_seconds: durationSeconds };
    return this.#data("post", "/api/v1/chats/{chat_id}/mute", { path: { chat_id: chatId }, body });
  }

  /** Ends a mute. */
  unmute(chatId: string): Promise<Schemas["Muted"]> {
    return this.#data("post", "/api/v1/chats/{chat_id}/unmute", { path: { chat_id: chatId } });
  }

  /** Sends a message over HTTP. Retries with the same `client_message_id` create one message. */
  sendMessage(chatId: string, body: Schemas["SendMessage"]): Promise<Schemas["SendMessageAck"]> {
    return this.#data("post", "/api/v1/chats/{chat_id}/messages", { path: { chat_id: chatId }, body });
  }

  /** A page of a chat's messages: the newest, or those before or after a sequence. */
  history(
    chatId: string,
    query: PageOptions & { before?: number; after?: number } = {},
  ): Promise<Page<Schemas["History"]>> {
    return this.#call("get", "/api/v1/chats/{chat_id}/messages", { path: { chat_id: chatId }, query });
  }

  /** The messages around a given one, oldest first. */
  around(chatId: string, sequence: number, limit?: number): Promise<Schemas["Around"]> {
    const request = { path: { chat_id: chatId, sequence }, query: limit === undefined ? {} : { limit } };
    return this.#data("get", "/api/v1/chats/{chat_id}/messages/around/{sequence}", request);
  }

  /** One message by its id. */
  message(messageId: string): Promise<Schemas["Message"]> {
    return this.#data("get", "/api/v1/messages/{message_id}", { path: { message_id: messageId } });
  }

  /** Edits a message of the user over HTTP. Retries with the same `client_message_id` make one edit. */
  editMessage(chatId: string, sequence: number, body: Schemas["EditMessage"]): Promise<Schemas["SendMessageAck"]> {
    const request = { path: { chat_id: chatId, sequence }, body };
    return this.#data("patch", "/api/v1/chats/{chat_id}/messages/{sequence}", request);
  }

  /** Deletes a message for everyone over HTTP. */
  deleteMessage(chatId: string, sequence: number, clientMessageId?: string): Promise<Schemas["SendMessageAck"]> {
    const request = { path: { chat_id: chatId, sequence }, query: { client_message_id: clientMessageId ?? null } };
    return this.#data("delete", "/api/v1/chats/{chat_id}/messages/{sequence}", request);
  }

  /** Adds a reaction of the user over HTTP. */
  addReaction(
    chatId: string,
    sequence: number,
    reaction: string,
    clientMessageId?: string,
  ): Promise<Schemas["SendMessageAck"]> {
    const path = { chat_id: chatId, sequence, reaction };
    const request = { path, query: { client_message_id: clientMessageId ?? null } };
    return this.#data("put", "/api/v1/chats/{chat_id}/messages/{sequence}/reactions/{reaction}", request);
  }

  /** Removes a reaction of the user over HTTP. */
  removeReaction(
    chatId: string,
    sequence: number,
    reaction: string,
    clientMessageId?: string,
  ): Promise<Schemas["SendMessageAck"]> {
    const path = { chat_id: chatId, sequence, reaction };
    const request = { path, query: { client_message_id: clientMessageId ?? null } };
    return this.#data("delete", "/api/v1/chats/{chat_id}/messages/{sequence}/reactions/{reaction}", request);
  }

  /** A page of the members who reacted to a message, ordered by id. */
  reactions(chatId: string, sequence: number, query: PageOptions = {}): Promise<Page<Schemas["Reactions"]>> {
    const request = { path: { chat_id: chatId, sequence }, query };
    return this.#call("get", "/api/v1/chats/{chat_id}/messages/{sequence}/reactions", request);
  }

  /**
   * Acknowledges all messages up to `sequence`, which must have no gap: for clients that read messages over REST. A
   * connected client acknowledges by itself.
   */
  markDelivered(chatId: string, sequence: number): Promise<Schemas["MarkedRead"]> {
    const request = { path: { chat_id: chatId }, body: { last_acked_sequence: sequence } };
    return this.#data("post", "/api/v1/chats/{chat_id}/delivered", request);
  }

  /** Marks all messages up to `sequence` as read. */
  markRead(chatId: string, sequence: number): Promise<Schemas["MarkedRead"]> {
    const request = { path: { chat_id: chatId }, body: { last_read_sequence: sequence } };
    return this.#data("post", "/api/v1/chats/{chat_id}/read", request);
  }

  /** The number of members that have received and read a message; the last message by default. */
  receipts(chatId: string, sequence?: number): Promise<Schemas["Receipts"]> {
    const request = { path: { chat_id: chatId }, query: sequence === undefined ? {} : { sequence } };
    return this.#data("get", "/api/v1/chats/{chat_id}/receipts", request);
  }

  /** Makes a call and returns the `data` of the response. */
  async #data<M extends Method, P extends Route<M>>(
    method: M,
    route: P,
    request: Request<P, M>,
  ): Promise<DataOf<P, M>> {
    const answer = await this.#call(method, route, request);
    return (answer as unknown as { data: DataOf<P, M> }).data;
  }

  /** Makes a call, and repeats it once with a new token if the server refused the first one. */
  async #call<M extends Method, P extends Route<M>>(
    method: M,
    route: P,
    request: Request<P, M>,
  ): Promise<Answer<P, M>> {
    const token = await this.#access.token();
    try {
      return await this.#http.call(method, route, request, token);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 401)) {
        throw error;
      }
    }
    return this.#http.call(method, route, request, await this.#access.renew(token));
  }
}
