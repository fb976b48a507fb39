import { render } from "preact";

import "../shared/theme.css";
import "./styles/controls.css";
import "./styles/welcome.css";
import "./styles/shell.css";
import "./styles/inbox.css";
import "./styles/chat.css";
import "./styles/panels.css";
import { start } from "./state/session.js";
import { App } from "./views/app.js";

const root = document.getElementById("app");
if (!root) throw new Error("the page has no element `app`");

render(<App />, root);
void start();
// Without a worker the page works too, but not offline.
void navigator.serviceWorker?.register("/sw.js").catch(() => {});
