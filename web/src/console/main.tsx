import "uplot/dist/uPlot.min.css";
import "../shared/theme.css";
import "./console.css";

import { render } from "preact";

import { App } from "./app";
import { followAddress } from "./route";

const root = document.getElementById("app");
if (root === null) throw new Error("the page has no element with the id `app`");
followAddress();
render(<App />, root);
