// Calls of the service's API, typed by the service itself.

import { treaty } from "@elysiajs/eden";
import type { App } from "../../src/app.ts";
import { storedCredentials } from "./credentials.ts";
import { ApiProblem, problemOf } from "./problem.ts";

/** Longer than a validation, which takes up to a minute. */
const deadlineMs = 90_000;

export type Api = ReturnType<typeof connect>;

/** @param onRefused called when the service asks for other credentials than those that are stored now */
export function connect(origin: string, onRefused: (challenge: string) => void) {
  const fetcher = async (url: Parameters<typeof fetch>[0], init?: RequestInit): Promise<Response> => {
    const sent = storedCredentials();
    const response = await reach(String(url), init);
    // Somebody may have signed in while this request was on its way.
    if (response.status === 401 && sent === storedCredentials())
      onRefused(response.headers.get("www-authenticate") ?? "");
    if (response.ok) throwIfForeign(response);
    return response;
  };
  return treaty<App>(origin, { fetcher: fetcher as typeof fetch, parseDate: false }).api.v1;
}

/** What a call answered. Throws `ApiProblem`. */
export async function answer<Data>(
  call: Promise<{ data: Data; error: null } | { data: null; error: { status: unknown; value: unknown } }>,
): Promise<Data> {
  const { data, error } = await call;
  if (error === null) return data as Data;
  if (error.value instanceof ApiProblem) throw error.value;
  throw problemOf(Number(error.status), error.value);
}

/** What a call answered, and its ETag; null: a proxy has taken it away. Throws `ApiProblem`. */
export async function taggedAnswer<Data>(
  call: Promise<
    ({ data: Data; error: null } | { data: null; error: { status: unknown; value: unknown } }) & {
      readonly response: Response;
    }
  >,
): Promise<{ readonly data: Data; readonly tag: string | null }> {
  const { response } = await call;
  return { data: await answer(call), tag: response.headers.get("etag") };
}

/** Credentials travel in a header that is ours: the browser then neither adds any nor asks for them by itself. */
export function authorized(headers?: HeadersInit): Headers {
  const all = new Headers(headers);
  const credentials = storedCredentials();
  if (credentials !== null) all.set("authorization", credentials);
  return all;
}

/** @param expected the media type that the service answers with */
export function throwIfForeign({ status, headers }: Response, expected = "application/json"): void {
  const type = headers.get("content-type");
  // An empty answer has none.
  if (type === null || type.toLowerCase().startsWith(expected)) return;
  throw new ApiProblem(
    status,
    "",
    `Something between this browser and the service answered in its place (${type}). Perhaps a proxy wants you to ` +
      "sign in: load the page again.",
  );
}

async function reach(url: string, init?: RequestInit): Promise<Response> {
  const timeout = AbortSignal.timeout(deadlineMs);
  const signal = init?.signal ? AbortSignal.any([init.signal, timeout]) : timeout;
  try {
    return await fetch(url, { ...init, signal, credentials: "omit", headers: authorized(init?.headers) });
  } catch (error) {
    if (init?.signal?.aborted && !isTimeout(init.signal.reason)) throw error;
    throw new ApiProblem(
      0,
      "unreachable",
      "The service does not answer. Is it running, and can this browser reach it?",
    );
  }
}

function isTimeout(reason: unknown): boolean {
  return reason instanceof DOMException && reason.name === "TimeoutError";
}
