// Builds the unit tests and runs them: `node test/run.mjs [NAME…]`.

import { runTests } from "./run-tests.mjs";

process.exitCode = await runTests("test", process.argv.slice(2), []);
