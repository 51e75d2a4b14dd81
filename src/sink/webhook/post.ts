// One POST over HTTP, bounded in time and in what is read of the answer. It is sent to an address that was checked. The name is used for
// the Host header and the TLS handshake alone.

import type { AddressResolver } from "../../connection/egress.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import type { RequestBody } from "../format/values/message-body.ts";
import { failureCode } from "./failure-code.ts";
import { type Answer, type HttpConnection, NoAnswer, notHttp } from "./http/connection.ts";
import type { ConnectionPool } from "./http/connection-pool.ts";
import { type Endpoint, endpointOf } from "./http/endpoint.ts";
import { requestHead, requestStart } from "./http/request-head.ts";
import { type PostStop, type StopList, TimedOut } from "./stop-list.ts";

export interface PostRequest {
  readonly target: PostTarget;
  /** Those of this attempt, in addition to the target's. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: RequestBody;
  readonly egress: Egress;
  readonly stops: StopList;
}

/** What requests are sent through. */
export interface Egress {
  readonly resolver: AddressResolver;
  readonly pool: ConnectionPool;
}

/** The target of a table's requests, with the head that all of them share. */
export class PostTarget {
  readonly #url: URL;
  readonly hostname: string;
  /** What each request's head begins with. */
  readonly start: string;
  readonly #endpoints = new Map<string, Endpoint>();

  constructor(url: string, headers: Readonly<Record<string, string>>) {
    this.#url = new URL(url);
    this.hostname = this.#url.hostname;
    this.start = requestStart(this.#url, headers);
  }

  /** The checked address in place of the host. TLS still asks for, and checks, the name. */
  at(address: string): Endpoint {
    const known = this.#endpoints.get(address);
    if (known) return known;
    const endpoint = endpointOf(this.#url, address);
    this.#endpoints.set(address, endpoint);
    return endpoint;
  }
}

export type PostResult =
  | ({ readonly kind: "answered" } & Answer)
  /** No answer; `code`: the system's error code. */
  | { readonly kind: "failed"; readonly reason: string; readonly code: string }
  /** Requests are not sent to this address. */
  | { readonly kind: "refused"; readonly error: MillraceError };

/** Nothing was sent yet: another address of the same host may be tried at once. */
const connectFailures: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
]);

/** Never throws: a signal that is aborted ends it as `failed`. */
export async function post(request: PostRequest): Promise<PostResult> {
  const { stops, target } = request;
  const { resolver } = request.egress;
  const stop = stops.begin();
  try {
    const host = target.hostname;
    const addresses = resolver.known(host) ?? (await stop.race(resolver.addresses(host)));
    let failure: PostResult | null = null;
    for (const address of addresses) {
      const result = await postTo(address, request, stop);
      if (result.kind !== "failed" || !connectFailures.has(result.code)) return result;
      failure = result;
    }
    return failure ?? { kind: "failed", reason: "no address to connect to", code: "" };
  } catch (error) {
    if (error instanceof MillraceError) return { kind: "refused", error };
    return failed(error, stops);
  } finally {
    stops.end(stop);
  }
}

async function postTo(address: string, request: PostRequest, stop: PostStop): Promise<PostResult> {
  const { target, stops } = request;
  const { resolver } = request.egress;
  try {
    const answer = await exchange(target.at(address), request, stop);
    resolver.worked(target.hostname, address);
    return { kind: "answered", ...answer };
  } catch (error) {
    // Otherwise an address that swallows what it is sent would be tried first each time.
    resolver.didNotWork(target.hostname, address);
    return failed(error, stops);
  }
}

/**
 * Uses an idle connection, or a new one. A receiver may close an idle connection just as it is used. Then the request is sent again over
 * a new one: the first cannot have answered it.
 */
async function exchange(endpoint: Endpoint, request: PostRequest, stop: PostStop): Promise<Answer> {
  const { target, headers, body, egress } = request;
  const { pool } = egress;
  const head = requestHead(target.start, headers, body.length);
  const exchangeOn = async (connection: HttpConnection) => {
    const answer = connection.exchange(head, body);
    stop.onStop((reason) => connection.stop(reason));
    try {
      return await answer;
    } finally {
      stop.onStop(null);
      pool.give(connection);
    }
  };
  const waiting = pool.take(endpoint);
  if (waiting) {
    try {
      return await exchangeOn(waiting);
    } catch (error) {
      if (error instanceof TimedOut) pool.closeIdleTo(endpoint);
      if (!(error instanceof NoAnswer && error.isStale)) throw error;
    }
  }
  return await exchangeOn(await opened(endpoint, pool, stop));
}

async function opened(endpoint: Endpoint, pool: ConnectionPool, stop: PostStop): Promise<HttpConnection> {
  const connection = pool.open(endpoint);
  try {
    await stop.race(connection.opened);
    return connection;
  } catch (error) {
    pool.leave(connection);
    throw error;
  }
}

function failed(error: unknown, { timeoutMs }: StopList): PostResult {
  if (error instanceof TimedOut) {
    return { kind: "failed", reason: `no answer within ${timeoutMs} ms`, code: "ETIMEDOUT" };
  }
  const code = failureCode(error);
  const reason =
    code === notHttp ? "the answer is not HTTP/1, or has too large a head" : `the request failed: ${code}`;
  return { kind: "failed", reason, code };
}
