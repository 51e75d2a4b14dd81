// The console's door: what the browser loads first.

import "uplot/dist/uPlot.min.css";
import "./styles/console.css";
import { render } from "preact";
import { App } from "./app.tsx";
import { followTheme } from "./store/theme.ts";

followTheme();
const root = document.getElementById("console");
if (root) render(<App />, root);
