// The connections of a sender: those that wait for the next request, by where they go, and those that no request waits for any more
// before they are there.

import { HttpConnection } from "./connection.ts";
import type { Endpoint } from "./endpoint.ts";

/** Firewalls and load balancers forget a connection on which nothing moves after some minutes, without a word. */
const idleMs = 60_000;
const sweepEveryMs = 15_000;

/** The system tries for two minutes to reach an address that does not answer, and nothing ends that. */
const mostLeft = 64;

export class ConnectionPool implements Disposable {
  /** By the endpoint's name; what was given back last comes last, and is taken first. */
  readonly #idle = new Map<string, HttpConnection[]>();
  /** Nobody waits for them, in the order in which they were begun. */
  readonly #left = new Set<HttpConnection>();
  #sweeping: Timer | null = null;
  #isDisposed = false;

  constructor(private readonly now: () => number = () => performance.now()) {}

  /** One that waits for a request; null: none does. It may have been closed at the other end without our knowing yet. */
  take({ name }: Endpoint): HttpConnection | null {
    const idle = this.#idle.get(name);
    const connection = idle?.pop() ?? null;
    if (idle?.length === 0) this.#idle.delete(name);
    return connection;
  }

  /** A new one, on its way; `give` it back, or `leave` it before it is there. */
  open(endpoint: Endpoint): HttpConnection {
    if (this.#left.size >= mostLeft) {
      const left = [...this.#left].find((each) => each.endpoint.name === endpoint.name);
      if (left && this.#left.delete(left)) return left;
    }
    return new HttpConnection(endpoint, (connection) => this.#forget(connection));
  }

  /** No request waits for it any more. */
  leave(connection: HttpConnection): void {
    if (!connection.isConnecting) connection.stop(new Error("nobody waits for it"));
    else {
      this.#left.add(connection);
      const give = () => {
        if (this.#left.delete(connection)) this.give(connection);
      };
      connection.opened.then(give, () => this.#left.delete(connection));
    }
  }

  /** It waits for the next request, if it can take one. */
  give(connection: HttpConnection): void {
    if (!connection.isUsable) return;
    if (this.#isDisposed) connection.close();
    else this.#keep(connection);
  }

  /** Closes those that have waited for too long. Done by itself as well, now and then. */
  closeIdle(): void {
    const limitMs = this.now() - idleMs;
    this.#closeWhere(({ idleSinceMs }) => idleSinceMs <= limitMs);
  }

  /** One of them was dead without a word: the others may be too. */
  closeIdleTo({ name }: Endpoint): void {
    this.#closeWhere(({ endpoint }) => endpoint.name === name);
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true;
    if (this.#sweeping) clearTimeout(this.#sweeping);
    this.#closeWhere(() => true);
  }

  #keep(connection: HttpConnection): void {
    const { name } = connection.endpoint;
    const idle = this.#idle.get(name);
    if (idle) idle.push(connection);
    else this.#idle.set(name, [connection]);
    connection.idleSinceMs = this.now();
    this.#sweeping ??= setTimeout(() => this.#sweep(), sweepEveryMs).unref();
  }

  #forget(connection: HttpConnection): void {
    const { name } = connection.endpoint;
    const others = this.#idle.get(name)?.filter((each) => each !== connection);
    if (others?.length === 0) this.#idle.delete(name);
    else if (others) this.#idle.set(name, others);
  }

  #sweep(): void {
    this.#sweeping = null;
    this.closeIdle();
    if (this.#idle.size > 0) this.#sweeping = setTimeout(() => this.#sweep(), sweepEveryMs).unref();
  }

  #closeWhere(isMeant: (connection: HttpConnection) => boolean): void {
    for (const connection of [...this.#idle.values()].flat()) if (isMeant(connection)) connection.close();
  }
}
