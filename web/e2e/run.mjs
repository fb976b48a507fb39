// Builds the end-to-end tests and runs them, one file after the other: `node e2e/run.mjs [NAME…]`. They need TIDINGS_BIN.

import { runTests } from "../test/run-tests.mjs";

process.exitCode = await runTests("e2e", process.argv.slice(2), ["--test-concurrency=1"]);
