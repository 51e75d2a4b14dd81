// Bundles the console for browsers: its script, its style and its icon. The build embeds the result; a service that runs
// from the sources makes it at the first request.

import { join } from "node:path";

/** Media types by name. */
export const assetTypes = {
  "app.js": "text/javascript; charset=utf-8",
  "app.css": "text/css; charset=utf-8",
  "icon.svg": "image/svg+xml",
} as const;

export type AssetName = keyof typeof assetTypes;
export type ConsoleAssets = Readonly<Record<AssetName, Uint8Array<ArrayBuffer>>>;

export const assetNames = Object.keys(assetTypes) as readonly AssetName[];

export interface ConsoleBundle {
  readonly assets: ConsoleAssets;
  /** Paths of all files that are in it, from the working directory. */
  readonly inputs: readonly string[];
}

/**
 * @param directory with `main.tsx`, the styles that it imports, and `icon.svg`
 * @throws if a file does not compile, or the bundle needs more files than the page loads
 */
export async function bundleConsole(directory: string): Promise<ConsoleBundle> {
  const { outputs, metafile } = await Bun.build({
    entrypoints: [join(directory, "main.tsx")],
    target: "browser",
    format: "esm",
    minify: true,
    metafile: true,
    naming: "app.[ext]",
    define: { "process.env.NODE_ENV": '"production"' },
  });
  const script = outputs.find(({ kind }) => kind === "entry-point");
  const style = outputs.find(({ path }) => path.endsWith(".css"));
  if (!script || outputs.length > (style ? 2 : 1)) {
    const paths = outputs.map(({ path }) => path);
    throw new Error(`The console's bundle has files that the page does not load: ${paths.join(", ")}`);
  }
  return {
    assets: {
      "app.js": new Uint8Array(await script.arrayBuffer()),
      "app.css": new Uint8Array((await style?.arrayBuffer()) ?? []),
      "icon.svg": await Bun.file(join(directory, "icon.svg")).bytes(),
    },
    inputs: Object.keys(metafile?.inputs ?? {}),
  };
}
