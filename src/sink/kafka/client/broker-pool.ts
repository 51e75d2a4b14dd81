// Connections to brokers, one to each. TLS asks a host for the certificate of its name; an address has none, and is checked nevertheless.

import { isIP } from "node:net";
import { type Connection, type ConnectionOptions, ConnectionPool } from "@platformatic/kafka";
import type { Address } from "./broker-address.ts";

export class BrokerPool {
  readonly #named: ConnectionPool;
  readonly #addressed: ConnectionPool;

  constructor(clientId: string, options: ConnectionOptions) {
    this.#named = new ConnectionPool(clientId, { ...options, tlsServerName: options.tls !== undefined });
    this.#addressed = new ConnectionPool(clientId, options);
    // A connection reports an error as an event, too, and may report several: without a listener one would end the thread.
    for (const pool of [this.#named, this.#addressed])
      pool.on("connecting", ({ connection }) => void connection.on("error", () => undefined));
  }

  /** Throws what the client throws. */
  async get(address: Address): Promise<Connection> {
    return await this.#of(address).get(address);
  }

  /** Cuts the connection to a broker: the next `get` opens another one. */
  drop(address: Address): void {
    this.#of(address).getEstablishedConnection(address)?.socket?.destroy();
  }

  /** Cuts connections that do not close by themselves within `ms`. */
  async close(ms: number): Promise<void> {
    const pools = [this.#named, this.#addressed];
    const connections = pools.flatMap((pool) => [...pool].map(([, connection]) => connection));
    const closed = Promise.all(pools.map((pool) => pool.close())).catch(() => undefined);
    await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, ms))]);
    for (const { socket } of connections) socket?.destroy();
  }

  #of({ host }: Address): ConnectionPool {
    return isIP(host) === 0 ? this.#named : this.#addressed;
  }
}
