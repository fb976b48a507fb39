import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { test } from "node:test";

const root = fileURLToPath(new URL("../../../", import.meta.url));

test("the types are those of the documents", () => {
  const { status, stderr } = spawnSync(process.execPath, ["tools/generate.mjs", "--check"], {
    cwd: root,
    encoding: "utf8",
  });
  assert.equal(status, 0, stderr);
});

test("the SDK stays small", () => {
  const { status, stdout } = spawnSync(process.execPath, ["tools/size.mjs"], { cwd: root, encoding: "utf8" });
  assert.equal(status, 0, stdout);
});
