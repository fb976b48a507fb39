import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";

import { Fields, type Scenario } from "./scenario.js";
import { VERBS } from "./verbs.js";
import { World } from "./world.js";

const file = new URL("../../../../conformance/scenarios.json", import.meta.url);
const { scenarios } = JSON.parse(readFileSync(file, "utf8")) as { scenarios: Scenario[] };

// A server and its devices mostly wait for each other, so a few scenarios run in parallel.
describe("the scenarios that every SDK passes", { concurrency: 4 }, () => {
  for (const scenario of scenarios) {
    it(scenario.name, () => run(scenario));
  }
});

/** Runs a scenario, and fails at the first step that does not hold. */
async function run({ steps, settings }: Scenario): Promise<void> {
  const world = await World.begin(settings);
  try {
    for (const [n, step] of steps.entries()) {
      try {
        await take(world, step);
      } catch (cause) {
        throw new Error(`step ${n + 1}, ${JSON.stringify(step)}: ${String(cause)}`, { cause });
      }
    }
  } finally {
    await world.end();
  }
}

async function take(world: World, step: Scenario["steps"][number]): Promise<void> {
  const [[verb, values] = ["", {}], ...more] = Object.entries(step);
  const act = VERBS[verb];
  assert.ok(act !== undefined && more.length === 0, "there is no such verb");
  const fields = new Fields(values);
  await act(world, fields);
  fields.end();
}
