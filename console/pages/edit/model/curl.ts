// Requests as commands for a shell. Pure.

import type { JsonObject } from "../../../../src/connector/request/merge-patch.ts";

export interface ShownRequest {
  readonly method: "POST" | "PATCH";
  readonly url: string;
  readonly body: JsonObject;
  readonly headers: Readonly<Record<string, string>>;
  /** How the reader is signed in; the command names the service's own variables for it. */
  readonly signIn: "none" | "basic" | "bearer";
}

const credentials = {
  none: [],
  basic: ['-u "$MILLRACE_USERNAME:$MILLRACE_PASSWORD"'],
  bearer: ['-H "authorization: Bearer $MILLRACE_API_TOKEN"'],
} as const;

export function curlOf({ method, url, body, headers, signIn }: ShownRequest): string {
  const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
  const options = [
    `-X ${method} ${quoted(url)}`,
    ...credentials[signIn],
    `-H 'content-type: ${type}'`,
    ...Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
    `-d ${quoted(JSON.stringify(body, null, 2))}`,
  ];
  return `curl ${options.join(" \\\n  ")}`;
}

/** For POSIX shells: nothing within single quotes has a meaning, but the quote itself. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
