// Serves Swagger UI and the OpenAPI document from the binary: no request leaves the machine.

import { type AnyElysia, Elysia } from "elysia";
// The binary embeds these files. Each import is the path to read it from.
import iconPath from "swagger-ui-dist/favicon-32x32.png" with { type: "file" };
import stylePath from "swagger-ui-dist/swagger-ui.css" with { type: "file" };
import scriptPath from "swagger-ui-dist/swagger-ui-bundle.js" with { type: "file" };
import { schemas } from "./named-schemas.ts";
import { type DocumentOptions, finishDocument } from "./openapi-document.ts";

const page = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>millrace API</title>
    <link rel="icon" type="image/png" href="/swagger/icon.png">
    <link rel="stylesheet" href="/swagger/swagger-ui.css">
  </head>
  <body>
    <div id="swagger-ui"></div>
    <script src="/swagger/swagger-ui-bundle.js"></script>
    <script src="/swagger/start.js"></script>
  </body>
</html>
`;

// A separate script, so that the page needs no inline script. Without validatorUrl the UI would call a public server.
const startScript = `window.ui = SwaggerUIBundle({
  url: "/swagger/json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
});
`;

/** A later version of the UI may load other resources: the browser refuses everything that is not ours. */
const contentSecurityPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
  "connect-src 'self'; font-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const hidden = { detail: { hide: true } };

/** @param documented creates an app with every route of the document; called at the first request for it */
export function swaggerRoutes(documented: () => AnyElysia, options: DocumentOptions) {
  let made: Promise<string> | null = null;

  /** Created at the first request: mounting every route again would slow down each start. */
  function document(): Promise<string> {
    made ??= makeDocument().catch((error: unknown) => {
      made = null;
      throw error;
    });
    return made;
  }

  async function makeDocument(): Promise<string> {
    // It takes memory, and few ask for the document.
    const { swagger } = await import("@elysiajs/swagger");
    // The plugin's own page loads a script from a CDN: only its document is used, and the page never served.
    const generator = new Elysia({ normalize: false })
      .use(swagger({ path: "/page", specPath: "/document" }))
      .use(documented());
    const response = await generator.handle(new Request("http://localhost/document"));
    return JSON.stringify(finishDocument(await response.json(), schemas, options));
  }

  return new Elysia({ name: "swagger-routes", normalize: false })
    .get("/swagger", () => content(page, "text/html; charset=utf-8"), hidden)
    .get("/swagger/json", async () => content(await document(), "application/json"), hidden)
    .get("/swagger/start.js", () => content(startScript, "text/javascript; charset=utf-8"), hidden)
    .get("/swagger/swagger-ui-bundle.js", () => file(scriptPath, "text/javascript; charset=utf-8"), hidden)
    .get("/swagger/swagger-ui.css", () => file(stylePath, "text/css; charset=utf-8"), hidden)
    .get("/swagger/icon.png", () => file(iconPath, "image/png"), hidden);
}

function content(body: string, contentType: string): Response {
  return new Response(body, { headers: headers(contentType) });
}

function file(path: string, contentType: string): Response {
  return new Response(Bun.file(path), { headers: headers(contentType) });
}

function headers(contentType: string): Record<string, string> {
  return {
    "content-type": contentType,
    "content-security-policy": contentSecurityPolicy,
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache",
  };
}
