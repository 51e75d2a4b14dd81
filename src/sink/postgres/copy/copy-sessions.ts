// The sessions that copies use: a pool of their own. Rows that are copied by their keys use the session that applies batches, and so do all copies
// where the sink may have only one session.

import type { Client } from "pg";
import { processIdOf } from "../../../connection/postgres-client.ts";
import { SessionPool, withPooledSession } from "../../../connection/session-pool.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { ConnectorAtSink } from "../bookkeeping/connector-lock.ts";
import { endCopySession, openCopySession } from "../sink-session.ts";

/** `within` runs `action` in a session that nobody else uses. `stop` ends it. If it fails, what it has not committed is rolled back. */
export interface CopySessions extends AsyncDisposable {
  within<T>(action: (client: Client) => Promise<T>, stop: AbortSignal): Promise<T>;
}

export class PooledCopySessions implements CopySessions {
  readonly #pool: SessionPool;

  constructor(
    private readonly config: PostgresSinkConfig,
    private readonly connector: ConnectorAtSink,
  ) {
    this.#pool = new SessionPool((signal) => openCopySession(config, { ...connector, signal }));
  }

  async within<T>(action: (client: Client) => Promise<T>, stop: AbortSignal): Promise<T> {
    const signal = AbortSignal.any([this.connector.signal, stop]);
    signal.throwIfAborted();
    let pid = 0;
    try {
      return await withPooledSession(this.#pool, signal, null, (client) => {
        pid = processIdOf(client);
        return action(client);
      });
    } catch (error) {
      // Otherwise its statement would run on for seconds and keep its locks.
      const goesOn = stop.aborted && !this.connector.signal.aborted;
      if (goesOn && pid > 0) await endCopySession(this.config, this.connector, pid);
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool[Symbol.asyncDispose]();
  }
}

/** One copy at a time, between batches. Only the connector's signal breaks the session. */
export class CopiesInApplySession implements CopySessions {
  constructor(
    private readonly client: () => Client,
    private readonly connector: ConnectorAtSink,
  ) {}

  async within<T>(action: (client: Client) => Promise<T>): Promise<T> {
    const { signal } = this.connector;
    signal.throwIfAborted();
    const client = this.client();
    try {
      return await action(client);
    } catch (error) {
      // If the session is broken, the next statement reports it.
      await client.query("rollback").catch(() => {});
      throw signal.aborted ? signal.reason : error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}
