import assert from "node:assert/strict";

/** A scenario of the list. */
export interface Scenario {
  name: string;
  settings?: Record<string, string>;
  steps: Record<string, Record<string, unknown>>[];
}

/** The fields of a step. A read of a missing field is an error, and so is a field that is never read. */
export class Fields {
  private readonly unread: Set<string>;

  constructor(private readonly values: Record<string, unknown>) {
    this.unread = new Set(Object.keys(values));
  }

  has(name: string): boolean {
    return this.values[name] !== undefined;
  }

  text(name: string): string {
    return this.of(name, (value) => typeof value === "string");
  }

  number(name: string): number {
    return this.of(name, (value) => typeof value === "number");
  }

  flag(name: string): boolean {
    return this.of(name, (value) => typeof value === "boolean");
  }

  object(name: string): Record<string, unknown> {
    return this.of(name, (value) => typeof value === "object" && value !== null && !Array.isArray(value));
  }

  list<T>(name: string): T[] {
    return this.of(name, Array.isArray);
  }

  /** The texts of a list in which `"1..600"` stands for 600 of them. */
  contents(): string[] {
    return this.list<string>("contents").flatMap((content) => {
      const [, from, to] = /^(\d+)\.\.(\d+)$/.exec(content) ?? [];
      const first = Number(from);
      return to === undefined ? [content] : Array.from({ length: Number(to) - first + 1 }, (_, n) => `${first + n}`);
    });
  }

  end(): void {
    assert.deepEqual([...this.unread], [], "fields that the runner does not know");
  }

  private of<T>(name: string, is: (value: unknown) => boolean): T {
    this.unread.delete(name);
    const value = this.values[name];
    assert.ok(is(value), `field \`${name}\` is ${JSON.stringify(value)}`);
    return value as T;
  }
}
