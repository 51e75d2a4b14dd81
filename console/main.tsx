// The console's door: what the browser loads first.

import { render } from "preact";

const root = document.getElementById("console");
if (root) render(<p>millrace</p>, root);
