import "../shared/theme.css";
import "./docs.css";

import { render } from "preact";

import { Reference } from "./app";
import type { AsyncApi, OpenApi } from "./spec";

const app = document.getElementById("app");
if (!app) throw new Error("the page has no element #app to draw into");

try {
  const [openapi, asyncapi] = await Promise.all([load<OpenApi>("/openapi.json"), load<AsyncApi>("/asyncapi.json")]);
  render(<Reference openapi={openapi} asyncapi={asyncapi} />, app);
} catch (error) {
  const reason = error instanceof Error ? error.message : String(error);
  render(
    <p class="failed" role="alert">
      The documents could not be loaded: {reason}. Is the server running? Reload the page to try again.
    </p>,
    app,
  );
}

async function load<T>(path: string): Promise<T> {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path} answered ${response.status}`);
  return (await response.json()) as T;
}
