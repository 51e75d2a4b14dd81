// Types of files imported `with { type: "file" }`: the import is a path to read.

declare module "*.wasm" {
  const path: string;
  // biome-ignore lint/style/noDefaultExport: this is how Bun exports a file.
  export default path;
}

declare module "*.data" {
  const path: string;
  // biome-ignore lint/style/noDefaultExport: this is how Bun exports a file.
  export default path;
}
