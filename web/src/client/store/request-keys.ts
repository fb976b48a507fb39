/**
 * The idempotency keys of one form: a retry of the same request has the same key, so a lost response cannot cause a
 * second effect. A changed request has another key, because the server refuses a key that was used for another request.
 */
export class RequestKeys {
  private readonly keys = new Map<string, string>();

  /** The key of a request. */
  of(request: unknown): string {
    const text = JSON.stringify(request);
    const key = this.keys.get(text) ?? crypto.randomUUID();
    this.keys.set(text, key);
    return key;
  }
}
