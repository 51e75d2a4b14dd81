// Serves the console: its page at `/` for browsers and at each path below /console, and its assets.

import { Elysia } from "elysia";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { RoutePattern } from "../guards/allowed-methods.ts";
import { isRead, requestPath } from "../guards/request-path.ts";
import { problemResponse } from "../problem.ts";
import { prefersHtml } from "./accept-headers.ts";
import { type AssetName, assetNames, assetTypes, type ConsoleAssets } from "./bundle-console.ts";
import { consolePage, securityHeaders } from "./console-page.ts";
import { contentResponse, type StaticContent, staticContent } from "./static-content.ts";

/** For the answer to another method. */
export const consolePatterns: readonly RoutePattern[] = [
  { method: "GET", path: "/console" },
  { method: "GET", path: "/console/*" },
];

/**
 * Answers requests for the console itself, and leaves all others to the guards and routes after it. So page and assets
 * need no credentials, and no path that a router reads in another way gets past the guards because of that.
 *
 * @param readAssets called at the first request, and again after it has failed
 */
export function consoleRoutes(readAssets: () => Promise<ConsoleAssets>) {
  let made: Promise<ConsoleContents> | null = null;

  function contents(): Promise<ConsoleContents> {
    made ??= makeContents(readAssets).catch((error: unknown) => {
      made = null;
      throw error;
    });
    return made;
  }

  return new Elysia({ name: "console-routes" }).onRequest(async ({ request }) => {
    const wanted = isRead(request.method) ? wantedContent(request) : null;
    if (wanted === null) return;
    if (wanted === "unknown asset") {
      return problemResponse(new MillraceError("not_found", "There is no such path."));
    }
    const { page, assets } = await contents();
    return wanted === "page"
      ? contentResponse(page, request, securityHeaders, ["accept"])
      : contentResponse(assets[wanted], request, securityHeaders);
  });
}

interface ConsoleContents {
  readonly page: StaticContent;
  readonly assets: Readonly<Record<AssetName, StaticContent>>;
}

async function makeContents(readAssets: () => Promise<ConsoleAssets>): Promise<ConsoleContents> {
  const files = await readAssets();
  const assets = await Promise.all(
    assetNames.map(async (name) => [name, await staticContent(files[name], assetTypes[name])] as const),
  );
  return {
    page: await staticContent(new TextEncoder().encode(consolePage), "text/html; charset=utf-8"),
    assets: Object.fromEntries(assets) as Record<AssetName, StaticContent>,
  };
}

const assetPrefix = "/console/assets/";

/** Null: the request is not for the console. */
function wantedContent(request: Request): "page" | "unknown asset" | AssetName | null {
  const path = requestPath(request.url);
  if (path === "/") return prefersHtml(request.headers.get("accept")) ? "page" : null;
  if (path.startsWith(assetPrefix)) {
    return assetNames.find((name) => path === assetPrefix + name) ?? "unknown asset";
  }
  return path === "/console" || path.startsWith("/console/") ? "page" : null;
}
