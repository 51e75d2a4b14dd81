// Types of Swagger UI's files, imported `with { type: "file" }`: the import is a path to read.

declare module "swagger-ui-dist/swagger-ui-bundle.js" {
  const path: string;
  // biome-ignore lint/style/noDefaultExport: this is how Bun exports a file.
  export default path;
}

declare module "swagger-ui-dist/swagger-ui.css" {
  const path: string;
  // biome-ignore lint/style/noDefaultExport: this is how Bun exports a file.
  export default path;
}

declare module "swagger-ui-dist/favicon-32x32.png" {
  const path: string;
  // biome-ignore lint/style/noDefaultExport: this is how Bun exports a file.
  export default path;
}
