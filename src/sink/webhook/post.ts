// One POST over HTTP, bounded in time and in what is read back. It goes to an address that was checked; the
// name goes into the Host header and the TLS handshake only.

import ipaddr from "ipaddr.js";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { AddressResolver } from "./egress.ts";
import { PartedBody, type RequestBody } from "./request-body.ts";
import { type StopList, TimedOut } from "./stop-list.ts";

export interface PostRequest {
  readonly target: PostTarget;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: RequestBody;
  readonly resolver: AddressResolver;
  readonly stops: StopList;
}

/** Where requests go, with what was worked out of it: one for each table. */
export class PostTarget {
  readonly url: URL;
  /** The URL's own, which it makes anew each time it is asked. */
  readonly hostname: string;
  readonly #pinned = new Map<string, PinnedTarget>();

  constructor(url: string) {
    this.url = new URL(url);
    this.hostname = this.url.hostname;
  }

  /** The address with the host replaced by a checked one; TLS still asks for, and checks, the name. */
  at(address: string): PinnedTarget {
    const known = this.#pinned.get(address);
    if (known) return known;
    const pinned = pin(this.url, address);
    this.#pinned.set(address, pinned);
    return pinned;
  }
}

export type PostResult =
  | { readonly kind: "answered"; readonly status: number; readonly retryAfter: string | null }
  /** No answer; `code` is the system's word for it. */
  | { readonly kind: "failed"; readonly reason: string; readonly code: string }
  /** The address is one that requests do not go to. */
  | { readonly kind: "refused"; readonly error: MillraceError };

/** What is read of a response's body before the connection is dropped. */
const maxResponseBytes = 64 * 1024;

/** Nothing was sent yet: another address of the same host may be tried at once. */
const connectFailures: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
  "ConnectionRefused",
  "FailedToOpenSocket",
]);

/** Never throws: a signal that is aborted ends it as `failed`. */
export async function post(request: PostRequest): Promise<PostResult> {
  const { stops, resolver, target } = request;
  const controller = stops.begin();
  try {
    const host = target.hostname;
    const addresses = resolver.known(host) ?? (await raceAbort(resolver.addresses(host), controller.signal));
    let failure: PostResult | null = null;
    for (const address of addresses) {
      const result = await postTo(address, request, controller);
      if (result.kind !== "failed" || !connectFailures.has(result.code)) return result;
      failure = result;
    }
    return failure ?? { kind: "failed", reason: "no address to connect to", code: "" };
  } catch (error) {
    if (error instanceof MillraceError) return { kind: "refused", error };
    return failed(error, controller.signal, stops);
  } finally {
    stops.end(controller);
  }
}

async function postTo(
  address: string,
  request: PostRequest,
  controller: AbortController,
): Promise<PostResult> {
  const { target, resolver, body, stops } = request;
  const pinned = target.at(address);
  try {
    const response = await fetch(pinned.href, {
      method: "POST",
      headers: headersTo(pinned, request),
      body: body instanceof PartedBody ? body.stream() : body,
      redirect: "manual",
      signal: controller.signal,
      decompress: false,
      ...(pinned.tls ? { tls: pinned.tls } : null),
    });
    resolver.worked(target.hostname, address);
    const { status } = response;
    const retryAfter = status >= 300 ? response.headers.get("Retry-After") : null;
    if (response.body !== null) await drain(response, controller);
    return { kind: "answered", status, retryAfter };
  } catch (error) {
    // Whatever swallows what is sent there would else be tried first each time.
    resolver.didNotWork(target.hostname, address);
    return failed(error, controller.signal, stops);
  }
}

function headersTo({ host }: PinnedTarget, { headers, body }: PostRequest): Readonly<Record<string, string>> {
  const named = host === null ? headers : { ...headers, Host: host };
  // A stream says its length only when it is told to.
  return body instanceof PartedBody ? { ...named, "Content-Length": String(body.length) } : named;
}

interface PinnedTarget {
  readonly href: string;
  /** The URL's host, where `href` does not name it or TLS has to; null elsewhere. */
  readonly host: string | null;
  readonly tls: { serverName: string } | null;
}

function pin(url: URL, address: string): PinnedTarget {
  const host = ipaddr.IPv6.isValid(address) ? `[${address.replace(/%.*$/, "")}]` : address;
  if (url.hostname === host) return { href: url.href, host: null, tls: null };
  const target = new URL(url.href);
  target.hostname = host;
  const tls = url.protocol === "https:" ? { serverName: url.hostname } : null;
  return { href: target.href, host: tls || target.href !== url.href ? url.host : null, tls };
}

/**
 * Reads what the receiver says, so that the connection can be used again, and throws it away. More than the
 * bound, or a body that fails or does not end within the timeout: the connection is dropped. The status
 * stands either way.
 */
async function drain(response: Response, controller: AbortController): Promise<void> {
  if (response.body === null) return;
  const length = Number(response.headers.get("Content-Length") ?? Number.NaN);
  if (length === 0) return;
  if (length > maxResponseBytes) return controller.abort();
  const reader = response.body.getReader();
  try {
    let read = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      read += value.byteLength;
      if (read > maxResponseBytes) return controller.abort();
    }
  } catch {
    controller.abort();
  }
}

function failed(error: unknown, signal: AbortSignal, stops: StopList): PostResult {
  if (signal.aborted && signal.reason instanceof TimedOut) {
    return { kind: "failed", reason: `no answer within ${stops.timeoutMs} ms`, code: "ETIMEDOUT" };
  }
  const code = errorCode(error);
  return { kind: "failed", reason: `the request failed: ${code}`, code };
}

/** The system's or the TLS library's word for a failure; never the message, which may hold the URL. */
function errorCode(error: unknown): string {
  if (error instanceof Error && "code" in error && typeof error.code === "string") return error.code;
  return error instanceof Error ? error.name : "unknown";
}

function raceAbort<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) return stop();
    signal.addEventListener("abort", stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
