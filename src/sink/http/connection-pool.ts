// The connections of a sender: idle ones by endpoint, and abandoned ones, which no request waits for while they still connect.

import { HttpConnection } from "./connection.ts";
import type { Endpoint } from "./endpoint.ts";

/** Firewalls and load balancers silently drop a connection that has been idle for some minutes. */
const idleMs = 60_000;
const sweepEveryMs = 15_000;

/** The system tries for two minutes to reach an address that does not answer, and nothing ends that. */
const mostAbandoned = 64;

export class ConnectionPool implements Disposable {
  /** By the endpoint's name. The one that was given back last is taken first. */
  readonly #idle = new Map<string, HttpConnection[]>();
  /** In the order in which they began. */
  readonly #abandoned = new Set<HttpConnection>();
  #sweeping: Timer | null = null;
  #isDisposed = false;

  constructor(private readonly now: () => number = () => performance.now()) {}

  /** An idle connection; null: there is none. It may have been closed at the other end already. */
  take({ name }: Endpoint): HttpConnection | null {
    const idle = this.#idle.get(name);
    const connection = idle?.pop() ?? null;
    if (idle?.length === 0) this.#idle.delete(name);
    return connection;
  }

  /** A new connection, which still connects. Call `give` when it is free, or `leave` while it connects. */
  open(endpoint: Endpoint): HttpConnection {
    if (this.#abandoned.size >= mostAbandoned) {
      const abandoned = [...this.#abandoned].find((each) => each.endpoint.name === endpoint.name);
      if (abandoned && this.#abandoned.delete(abandoned)) return abandoned;
    }
    return new HttpConnection(endpoint, (connection) => this.#forget(connection));
  }

  /** No request waits for it any more. */
  leave(connection: HttpConnection): void {
    if (!connection.isConnecting) connection.stop(new Error("nobody waits for it"));
    else {
      this.#abandoned.add(connection);
      const give = () => {
        if (this.#abandoned.delete(connection)) this.give(connection);
      };
      connection.opened.then(give, () => this.#abandoned.delete(connection));
    }
  }

  /** It becomes idle, if it can take another request. */
  give(connection: HttpConnection): void {
    if (!connection.isUsable) return;
    if (this.#isDisposed) connection.close();
    else this.#keep(connection);
  }

  /** Closes those that have been idle for too long. The pool does so by itself, now and then. */
  closeIdle(): void {
    const limitMs = this.now() - idleMs;
    this.#closeWhere(({ idleSinceMs }) => idleSinceMs <= limitMs);
  }

  /** One of them was dead: the others may be too. */
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
