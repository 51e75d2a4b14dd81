// The console's bundle: what a browser loads is small, whole, and says nothing of the machine that it was built on.

import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { bundleConsole } from "../../../src/api/console/bundle-console.ts";
import { consolePage } from "../../../src/api/console/console-page.ts";

const root = resolve(import.meta.dirname, "..", "..", "..");
const console = join(root, "console");

test("page and assets are at most 150 kB compressed", async () => {
  const { assets } = await bundleConsole(console);
  const all = [new TextEncoder().encode(consolePage), ...Object.values(assets)];
  const bytes = all.reduce((sum, each) => sum + Bun.gzipSync(each, { level: 9 }).length, 0);
  expect(bytes).toBeLessThanOrEqual(150_000);
});

test("the script is minified, of Preact for production, and holds no path of this machine", async () => {
  const { assets, inputs } = await bundleConsole(console);
  const script = new TextDecoder().decode(assets["app.js"]);
  expect(script).not.toContain(root);
  expect(script).not.toContain("sourceMappingURL");
  expect(script.split("\n").length).toBeLessThan(50);
  const packages = inputs.filter((path) => path.includes("node_modules/preact/"));
  expect(packages.length).toBeGreaterThan(1);
  expect(packages.filter((path) => /debug|devtools|dev-runtime/.test(path))).toEqual([]);
});

/** Bundles a console of these files. */
async function bundleOf(files: Readonly<Record<string, string>>) {
  const directory = await mkdtemp(join(tmpdir(), "millrace-bundle-"));
  try {
    for (const [name, text] of Object.entries(files)) await Bun.write(join(directory, name), text);
    return await bundleConsole(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

test("all styles that the script imports are in one file", async () => {
  const { assets } = await bundleOf({
    "icon.svg": "<svg/>",
    "main.tsx": 'import "./a.css"; import { part } from "./part.ts"; document.title = part;',
    "part.ts": 'import "./b.css"; export const part = "a title";',
    "a.css": ":root { --ground: white }\n",
    "b.css": "body { background: var(--ground) }\n",
  });
  const [script, style] = [assets["app.js"], assets["app.css"]].map((bytes) =>
    new TextDecoder().decode(bytes),
  );
  expect(script).toContain("a title");
  for (const part of ["--ground:", "body{background:var(--ground)}"]) expect(style).toContain(part);
});

test("a console that does not compile is an error, and so is one that needs another file", async () => {
  const icon = { "icon.svg": "<svg/>" };
  await expect(bundleOf({ ...icon, "main.tsx": "const = 1;" })).rejects.toThrow();
  const other = bundleOf({
    ...icon,
    "main.tsx": 'import font from "./font.woff2"; document.title = font;',
    "font.woff2": "x".repeat(100_000),
  });
  await expect(other).rejects.toThrow("font");
});
