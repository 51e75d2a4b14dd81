// The stored connectors. What is sealed here is opened here: the rest of the service sees full configurations.

import { and, eq, type SQL, sql } from "drizzle-orm";
import type { ConnectorConfig } from "../../connector/connector.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { type Database, sqlState, stored, uniqueViolation } from "../database.ts";
import { connectors } from "../schema.ts";
import type { Cipher } from "../secrets/encryption.ts";

export interface StoredConnector {
  readonly id: string;
  /** Full form, with its secrets. */
  readonly config: ConnectorConfig;
  readonly slotName: string;
  readonly stopped: boolean;
  /** Accepted and under way; the connector is no longer anyone's to change. */
  readonly deletion: "wait" | "force" | null;
  /** The configuration that is cleaned up after before the next run begins anew; null: nothing to do. */
  readonly cleanup: ConnectorConfig | null;
  readonly initialized: boolean;
  /** Of a connector that copies everything, once or on a schedule: when the last round began; null: none has. */
  readonly roundBegunAt: Date | null;
  /** Null: the round is under way, or none has begun. */
  readonly roundEndedAt: Date | null;
  /** UUIDv7 of the current, or else the last, run. */
  readonly runId: string;
  readonly createdAt: Date;
}

/** None has begun: everything is to be copied anew. */
export const noRound = { roundBegunAt: null, roundEndedAt: null } as const;

/** What may change once a connector is stored. */
export type ConnectorChange = Partial<
  Pick<
    StoredConnector,
    "config" | "stopped" | "deletion" | "cleanup" | "initialized" | "runId" | "roundBegunAt" | "roundEndedAt"
  >
>;

type Row = typeof connectors.$inferSelect;

export class ConnectorStore {
  readonly #database: Database;
  readonly #cipher: Cipher;

  constructor(database: Database, cipher: Cipher) {
    this.#database = database;
    this.#cipher = cipher;
  }

  /** Throws `conflict` when the id, or the slot name that it leads to, is taken. */
  async insert(connector: StoredConnector): Promise<void> {
    const { config, cleanup, ...rest } = connector;
    const values = { ...rest, sealedConfig: this.#seal(connector.id, config) };
    const sealedCleanup = cleanup && this.#seal(connector.id, cleanup);
    try {
      await this.#database.insert(connectors).values({ ...values, sealedCleanup });
    } catch (error) {
      if (sqlState(error) !== uniqueViolation) return stored(Promise.reject(error));
      throw new MillraceError(
        "conflict",
        `Another connector has the id ${connector.id}, or one that leads to the same slot name ${connector.slotName}.`,
      );
    }
  }

  async find(id: string): Promise<StoredConnector | null> {
    const rows = await stored(
      this.#database.select().from(connectors).where(eq(connectors.id, id)).execute(),
    );
    return rows[0] ? this.#read(rows[0]) : null;
  }

  /** Throws `connector_not_found`. */
  async get(id: string): Promise<StoredConnector> {
    const stored = await this.find(id);
    if (!stored) throw new MillraceError("connector_not_found", `There is no connector ${id}.`);
    return stored;
  }

  /** All of them, oldest first. */
  async list(): Promise<StoredConnector[]> {
    const order = [connectors.createdAt, connectors.id];
    const rows = await stored(
      this.#database
        .select()
        .from(connectors)
        .orderBy(...order)
        .execute(),
    );
    return rows.map((row) => this.#read(row));
  }

  /**
   * Changes what is named and leaves the rest. A connector that is gone is left gone. A cleanup that is due already
   * stays the one to do: nothing has been made at a source since.
   */
  async update(id: string, change: ConnectorChange): Promise<void> {
    const { config, cleanup, ...rest } = change;
    const values = {
      ...rest,
      ...(config === undefined ? {} : { sealedConfig: this.#seal(id, config) }),
      ...(cleanup === undefined ? {} : { sealedCleanup: cleanup && this.#firstCleanup(id, cleanup) }),
    };
    await stored(this.#database.update(connectors).set(values).where(eq(connectors.id, id)).execute());
  }

  /** The run has made slot and checkpoint. Throws `state_unavailable` when it is no longer the connector's run. */
  async markInitialized(id: string, runId: string): Promise<void> {
    await this.#mark(id, runId, { initialized: true });
  }

  /** The run copies everything from here on, and anew. Throws as `markInitialized` does. */
  async beginRound(id: string, runId: string, at: Date): Promise<void> {
    await this.#mark(id, runId, { initialized: false, roundBegunAt: at, roundEndedAt: null });
  }

  /** The run has copied everything. Throws as `markInitialized` does. */
  async endRound(id: string, runId: string, at: Date): Promise<void> {
    await this.#mark(id, runId, { roundEndedAt: at });
  }

  async #mark(id: string, runId: string, marks: Partial<Row>): Promise<void> {
    const where = and(eq(connectors.id, id), eq(connectors.runId, runId));
    const marked = await stored(
      this.#database.update(connectors).set(marks).where(where).returning({ id: connectors.id }).execute(),
    );
    if (marked.length === 0) throw new MillraceError("state_unavailable", "Another run has taken over.");
  }

  /** Removes the connector with its history, tasks and sink record. */
  async remove(id: string): Promise<void> {
    await stored(this.#database.delete(connectors).where(eq(connectors.id, id)).execute());
  }

  #firstCleanup(id: string, cleanup: ConnectorConfig): SQL {
    return sql`coalesce(${connectors.sealedCleanup}, ${this.#seal(id, cleanup)})`;
  }

  #seal(id: string, config: ConnectorConfig): string {
    return this.#cipher.seal(JSON.stringify(config), place(id));
  }

  #open(id: string, sealed: string): ConnectorConfig {
    return JSON.parse(this.#cipher.open(sealed, place(id))) as ConnectorConfig;
  }

  #read(row: Row): StoredConnector {
    const { sealedConfig, sealedCleanup, ...rest } = row;
    const cleanup = sealedCleanup === null ? null : this.#open(row.id, sealedCleanup);
    return { ...rest, config: this.#open(row.id, sealedConfig), cleanup };
  }
}

/** Seals what is sealed under another key; in the transaction of `database`. Returns how many connectors there are. */
export async function resealConnectors(database: Database, from: Cipher, to: Cipher): Promise<number> {
  const { id, sealedConfig, sealedCleanup } = connectors;
  const rows = await database.select({ id, sealedConfig, sealedCleanup }).from(connectors);
  for (const row of rows) {
    const again = (sealed: string) => to.seal(from.open(sealed, place(row.id)), place(row.id));
    const sealed = {
      sealedConfig: again(row.sealedConfig),
      sealedCleanup: row.sealedCleanup && again(row.sealedCleanup),
    };
    await database.update(connectors).set(sealed).where(eq(connectors.id, row.id));
  }
  return rows.length;
}

function place(id: string): string {
  return `connector ${id}`;
}
