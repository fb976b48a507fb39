// Builds the end-to-end tests and runs them, two files at a time: `node e2e/run.mjs [NAME…]`. They need TIDINGS_BIN. Each
// file has its own server and browser, and waits for pages about as long as it computes.

import { runTests } from "../test/run-tests.mjs";

process.exitCode = await runTests("e2e", process.argv.slice(2), ["--test-concurrency=2"]);
