// Connections to brokers, one to each. Whoever named a broker, the configuration or the cluster, its name is resolved here, and the
// connection goes to an address that was checked. TLS asks for the certificate of the name.

import { isIP } from "node:net";
import { Connection, type ConnectionOptions } from "@platformatic/kafka";
import { bounded } from "../../../concurrency/until-aborted.ts";
import type { AddressResolver } from "../../../connection/egress.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import { type Address, addressText } from "./broker-address.ts";

export class BrokerPool {
  /** By address; also those that still open. */
  readonly #connections = new Map<string, Promise<Connection>>();
  #isClosed = false;

  constructor(
    private readonly clientId: string,
    private readonly options: ConnectionOptions & { readonly connectTimeout: number },
    private readonly resolver: AddressResolver,
  ) {}

  /** Throws `kafka_rejected` where the broker's address is refused, and what the client and DNS throw. */
  async get(broker: Address): Promise<Connection> {
    const name = addressText(broker);
    const known = this.#connections.get(name);
    if (known) return await known;
    const opening = this.#open(broker);
    this.#connections.set(name, opening);
    const forget = () => {
      if (this.#connections.get(name) === opening) this.#connections.delete(name);
    };
    opening.then((connection) => connection.once("close", forget), forget);
    return await opening;
  }

  /** Cuts the connection to a broker: the next `get` opens another one. */
  drop(broker: Address): void {
    const name = addressText(broker);
    void this.#connections.get(name)?.then(cut, () => undefined);
    this.#connections.delete(name);
  }

  /** Cuts connections that do not close by themselves within `ms`. */
  async close(ms: number): Promise<void> {
    this.#isClosed = true;
    const all = [...this.#connections.values()];
    const closed = Promise.allSettled(all.map(async (opening) => await (await opening).close()));
    await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, ms))]);
    for (const opening of all) opening.then(cut, () => undefined);
  }

  async #open({ host, port }: Address): Promise<Connection> {
    let failure: unknown = null;
    for (const address of await this.#addresses(host)) {
      // An address has no certificate of its own name to ask for, and is checked nevertheless.
      const name = this.options.tls && isIP(host) === 0 ? { tlsServerName: host } : {};
      const connection = new Connection(this.clientId, { ...this.options, ...name });
      // It reports an error as an event, too, and may report several: without a listener one would end the thread.
      connection.on("error", () => undefined);
      try {
        await connection.connect(address, port);
        this.resolver.worked(host, address);
        if (!this.#isClosed) return connection;
        cut(connection);
        failure = new MillraceError("sink_connection_lost", "the connections are closed");
        break;
      } catch (error) {
        this.resolver.didNotWork(host, address);
        failure = error;
      }
    }
    throw failure;
  }

  async #addresses(host: string): Promise<readonly string[]> {
    try {
      const limit = AbortSignal.timeout(this.options.connectTimeout);
      return await bounded(limit, () => this.resolver.addresses(host));
    } catch (error) {
      if (!(error instanceof MillraceError)) throw error;
      throw new MillraceError("kafka_rejected", error.message.replace(/^host/, "Kafka broker"));
    }
  }
}

function cut({ socket }: Connection): void {
  socket?.destroy();
}
