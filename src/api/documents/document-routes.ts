// Serves the documentation of this version. It holds nothing secret, and so it is open to a browser, as the console's page is.

import { Elysia } from "elysia";
import { MillraceError } from "../../errors/millrace-error.ts";
import { securityHeaders } from "../console/console-page.ts";
import { contentResponse, type StaticContent, staticContent } from "../console/static-content.ts";
import type { RoutePattern } from "../guards/allowed-methods.ts";
import { isRead, requestPath } from "../guards/request-path.ts";
import { problemResponse } from "../problem.ts";
import { documentNames, pictureTypes, readDocument } from "./document-files.ts";
import {
  type DocumentLink,
  documentIndex,
  documentPage,
  documentsPath,
  documentTitle,
} from "./document-page.ts";
import { documentStyle } from "./document-style.ts";

/** For the answer to another method. */
export const documentPatterns: readonly RoutePattern[] = [
  { method: "GET", path: documentsPath },
  { method: "GET", path: `${documentsPath}/:name` },
];

type Contents = ReadonlyMap<string, StaticContent>;

/** Answers requests for documents, and leaves all others to the guards and routes after it. */
export function documentRoutes() {
  let made: Promise<Contents> | null = null;
  const contents = () => {
    made ??= makeContents().catch((error: unknown) => {
      made = null;
      throw error;
    });
    return made;
  };
  return new Elysia({ name: "document-routes" }).onRequest(async ({ request }) => {
    const path = requestPath(request.url);
    if (!isRead(request.method) || (path !== documentsPath && !path.startsWith(`${documentsPath}/`))) return;
    const content = (await contents()).get(path);
    return content
      ? contentResponse(content, request, securityHeaders)
      : problemResponse(new MillraceError("not_found", "There is no such path."));
  });
}

/** By path. */
async function makeContents(): Promise<Contents> {
  const names = await documentNames();
  const texts = await Promise.all(
    names
      .filter((name) => name.endsWith(".md"))
      .map(async (file) => ({
        name: file.slice(0, -3),
        text: new TextDecoder().decode(await readDocument(file)),
      })),
  );
  const links: DocumentLink[] = texts
    .map(({ name, text }) => ({ name, title: documentTitle(name, text) }))
    .sort((a, b) => (a.title < b.title ? -1 : 1));
  const pages = texts.map(({ name, text }) => {
    return [`${documentsPath}/${name}`, documentPage(documentTitle(name, text), text, links)] as const;
  });
  const html = [[documentsPath, documentIndex(links)], ...pages] as const;
  const made = [
    ...html.map(([path, text]) => [path, encode(text), "text/html; charset=utf-8"] as const),
    [`${documentsPath}/style.css`, encode(documentStyle), "text/css; charset=utf-8"] as const,
    ...(await pictures(names)),
  ];
  const contents = made.map(async ([path, bytes, type]) => [path, await staticContent(bytes, type)] as const);
  return new Map(await Promise.all(contents));
}

function pictures(names: readonly string[]) {
  const typed = names.flatMap((name) => {
    const type = pictureTypes[name.split(".").at(-1) ?? ""];
    return type === undefined ? [] : [{ name, type }];
  });
  return Promise.all(
    typed.map(
      async ({ name, type }) => [`${documentsPath}/${name}`, await readDocument(name), type] as const,
    ),
  );
}

function encode(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}
