import assert from "node:assert/strict";
import { test } from "node:test";

import type { Member, Sample } from "../src/console/answers";
import { ago, bytes, count, localTimes, milliseconds, moment, mutedUntil, number, short } from "../src/console/format";
import { place, span } from "../src/console/parts/watermarks";
import { href, parseRoute, type Route } from "../src/console/route";
import { SAMPLES_MAX, linesByName, merge, within } from "../src/console/series";

function sample(seconds: number, errors: Record<string, number> = {}): Sample {
  return {
    at: new Date(seconds * 1000).toISOString(),
    sends_per_second: 0,
    acks_per_second: 0,
    pushes_per_second: 0,
    ack_p50_ms: null,
    ack_p99_ms: null,
    push_p50_ms: null,
    push_p99_ms: null,
    connections: null,
    ingest_queue: null,
    mailbox_fullest: null,
    lag_events: {},
    errors_per_second: errors,
    missed_per_second: 0,
    violations: {},
    memory_bytes: null,
    cpu_cores: null,
    disk_used_bytes: null,
    disk_free_bytes: null,
    disk_limit_bytes: null,
  };
}

const secondsOf = (samples: Sample[]) => samples.map(({ at }) => Date.parse(at) / 1000);

test("samples are kept once each and for half an hour", () => {
  const kept = merge([sample(2), sample(4)], [sample(4), sample(6)]);
  assert.deepEqual(secondsOf(kept), [2, 4, 6]);
  const all = Array.from({ length: SAMPLES_MAX + 3 }, (_, n) => sample(2 * n));
  assert.deepEqual(secondsOf(merge([], all)).slice(0, 2), [6, 8]);
});

test("a window ends with the newest sample", () => {
  const samples = [sample(0), sample(100), sample(398), sample(400)];
  assert.deepEqual(secondsOf(within(samples, 300)), [398, 400]);
  assert.deepEqual(within([], 300), []);
});

test("a code that is not named in a sample was not answered then", () => {
  const lines = linesByName([sample(2, { B: 1 }), sample(4, { A: 3 })], ({ errors_per_second }) => errors_per_second);
  assert.deepEqual(lines, [{ name: "A", values: [0, 3] }, { name: "B", values: [1, 0] }]);
});

test("an address leads where it was made for, and anywhere else to the overview", () => {
  const routes: Route[] = [
    { view: "overview" },
    { view: "nodes" },
    { view: "search" },
    { view: "audit" },
    { view: "user", id: "user_1" },
    { view: "chat", id: "a/b c" },
    { view: "message", id: "msg_1" },
  ];
  for (const route of routes) assert.deepEqual(parseRoute(href(route)), route);
  assert.deepEqual(parseRoute(""), { view: "overview" });
  assert.deepEqual(parseRoute("#/users/"), { view: "search" });
  assert.deepEqual(parseRoute("#/users/%E0%A4%A"), { view: "search" });
});

test("figures are short to read", () => {
  assert.deepEqual([number(0), number(0.1234), number(1234.5)], ["0", "0.123", "1,235"]);
  assert.deepEqual([short(12), short(1500), short(2e6)], ["12", "1.5k", "2M"]);
  assert.deepEqual([milliseconds(2.34567), milliseconds(1500)], ["2.35 ms", "1.5 s"]);
  assert.deepEqual([bytes(17), bytes(3 * 2 ** 20)], ["17 B", "3 MiB"]);
  assert.deepEqual([count(1, "member"), count(2000, "member")], ["1 member", "2,000 members"]);
});

test("times are those of this machine, and say how far they are", () => {
  const now = new Date("2026-01-30T14:30:00.000Z");
  const off = (ms: number) => ago(new Date(now.getTime() - ms), now);
  assert.deepEqual([off(5000), off(61_000), off(7_300_000)], ["5 s ago", "1 min ago", "2 h ago"]);
  assert.equal(off(-3_600_000), "in 1 h");
  const at = "2026-01-30T14:30:00.007Z";
  assert.equal(localTimes(`since ${at}, and`), `since ${moment(at)}, and`);
  assert.equal(mutedUntil("9999-12-31T23:59:59.999Z"), "for ever");
});

test("the axis of a chat begins a little before the last whom all have read", () => {
  const member = (read: number) => ({ read_sequence: read }) as Member;
  assert.deepEqual(span([member(100), member(20)], 100), { from: 0, to: 100 });
  assert.deepEqual(span([member(1000), member(960)], 1000), { from: 950, to: 1000 });
  assert.deepEqual(span([], 0), { from: 0, to: 1 });
  const range = { from: 50, to: 100 };
  assert.deepEqual([place(50, range), place(75, range), place(100, range), place(10, range)], [0, 50, 100, 0]);
});
