/** A signed-in user, over REST only. */
export class Person {
  private constructor(
    private readonly url: string,
    private readonly token: string,
    readonly userId: string,
    readonly sessionId: string,
    readonly phone: string,
  ) {}

  static async signUp(url: string, phone: string, name: string): Promise<Person> {
    await call(url, "POST", "/auth/request-otp", { phone_number: phone });
    const device = { device_id: crypto.randomUUID(), display_name: name };
    const signedIn = await call(url, "POST", "/auth/verify-otp", { phone_number: phone, otp: "000000", ...device });
    const { user, session, tokens } = signedIn as {
      user: { user_id: string };
      session: { session_id: string };
      tokens: { access_token: string };
    };
    return new Person(url, tokens.access_token, user.user_id, session.session_id, phone);
  }

  async directChat(other: Person): Promise<string> {
    const chat = await this.call("POST", "/chats", { type: "direct", member_ids: [other.userId] });
    return (chat as { chat_id: string }).chat_id;
  }

  /** Sends a message and returns its id. */
  async send(chatId: string, content: string, contentType = "text/plain"): Promise<string> {
    const message = { client_message_id: crypto.randomUUID(), content, content_type: contentType };
    const sent = await this.call("POST", `/chats/${chatId}/messages`, message);
    return (sent as { message_id: string }).message_id;
  }

  block(other: Person): Promise<unknown> {
    return this.call("PUT", `/blocks/${other.userId}`);
  }

  /** Whether the session is valid. */
  async isSignedIn(): Promise<boolean> {
    const headers = { authorization: `Bearer ${this.token}` };
    return (await fetch(`${this.url}/api/v1/users/me`, { headers })).ok;
  }

  /** Makes a call and returns the `data` of the answer. */
  call(method: string, path: string, body?: unknown): Promise<unknown> {
    return call(this.url, method, path, body, this.token);
  }
}

async function call(url: string, method: string, path: string, body?: unknown, token?: string): Promise<unknown> {
  const credential = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const headers = { "content-type": "application/json", ...credential };
  const request = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
  const response = await fetch(`${url}/api/v1${path}`, request);
  if (response.status === 204) return undefined;
  const answer = (await response.json()) as { data: unknown };
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${JSON.stringify(answer)}`);
  return answer.data;
}
