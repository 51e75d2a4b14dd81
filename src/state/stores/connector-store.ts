// The stored connectors. Configurations are encrypted and decrypted here. What is stored is the given form, so that a
// setting that nobody gave has the default of the version that runs.

import { and, eq, type SQL, sql } from "drizzle-orm";
import type { ConnectorConfig, ConnectorRequest } from "../../connector/connector.ts";
import { completeConnector } from "../../connector/request/complete-connector.ts";
import { inferGivenForm } from "../../connector/request/given-form.ts";
import type { Term } from "../../connector/term.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { type Database, sqlState, stored, uniqueViolation } from "../database.ts";
import { connectors } from "../schema.ts";
import type { Cipher } from "../secrets/encryption.ts";
import { holdKey } from "../secrets/key-check.ts";
import { fenced } from "./fence.ts";
import { removeInPieces } from "./piecewise-removal.ts";

export interface StoredConnector {
  readonly id: string;
  /** In given form, with secrets. */
  readonly given: ConnectorRequest;
  /** The full form of `given`. */
  readonly config: ConnectorConfig;
  readonly slotName: string;
  readonly stopped: boolean;
  /** The deletion was accepted and is under way; nobody may change the connector any more. */
  readonly deletion: "wait" | "force" | null;
  /** The configuration to clean up before the next run; null: none. */
  readonly cleanup: ConnectorConfig | null;
  readonly initialized: boolean;
  /** If the slot is lost, the run goes on with a new one, and compares the tables with the source. */
  readonly resumes: boolean;
  /** For a connector that copies everything, once or on a schedule: when the last round began; null: none has. */
  readonly roundBegunAt: Date | null;
  /** Null: the round is not complete, or none has begun. */
  readonly roundEndedAt: Date | null;
  /** UUIDv7 of the current run, or else of the last one. */
  readonly runId: string;
  readonly createdAt: Date;
}

/** No round has begun: everything is to be copied again. */
export const noRound = { roundBegunAt: null, roundEndedAt: null } as const;

/** What may change of a stored connector. */
export type ConnectorChange = Partial<
  Pick<
    StoredConnector,
    | "given"
    | "stopped"
    | "deletion"
    | "cleanup"
    | "initialized"
    | "resumes"
    | "runId"
    | "roundBegunAt"
    | "roundEndedAt"
  >
>;

interface RunOfConnector {
  readonly id: string;
  readonly runId: string;
  readonly term: Term;
}

type Row = typeof connectors.$inferSelect;

const aloneSql = sql`select pg_advisory_xact_lock(hashtextextended('millrace connectors', 0))`;

export class ConnectorStore {
  readonly #database: Database;
  readonly #cipher: Cipher;

  constructor(database: Database, cipher: Cipher) {
    this.#database = database;
    this.#cipher = cipher;
  }

  /**
   * Runs `work` with a store of its own, in one transaction; of all replicas only one does so at a time. So what it reads of other connectors
   * holds until it has written. It may use no other store: an embedded state has one session.
   */
  alone<Result>(work: (store: ConnectorStore) => Promise<Result>): Promise<Result> {
    return stored(
      this.#database.transaction(async (transaction) => {
        await transaction.execute(aloneSql);
        return await work(new ConnectorStore(transaction, this.#cipher));
      }),
    );
  }

  /** Throws `conflict` when the id is taken, or the slot name that it gives. */
  async insert(connector: StoredConnector): Promise<void> {
    const { given, config: _, cleanup, ...rest } = connector;
    const values = { ...rest, sealedConfig: this.#seal(connector.id, { given }) };
    const sealedCleanup = cleanup && this.#seal(connector.id, cleanup);
    try {
      await this.#sealing((database) => database.insert(connectors).values({ ...values, sealedCleanup }));
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
    if (!stored) throw connectorNotFound(id);
    return stored;
  }

  /** All connectors, oldest first. */
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
   * Changes the given fields. Does nothing when the connector is gone. A cleanup that is already due is kept: nothing
   * has been created at a source since.
   */
  async update(id: string, change: ConnectorChange): Promise<void> {
    const values = this.#valuesOf(id, change);
    await stored(
      this.#sealing((database) => database.update(connectors).set(values).where(eq(connectors.id, id))),
    );
  }

  /**
   * Changes one connector: `decide` gets the locked record and returns what is to change, or null to leave it. So of
   * several replicas that change it at once, each sees what the one before has stored. If `decide` throws, nothing is
   * changed. Returns the record afterwards; null: there is no such connector.
   */
  async change(
    id: string,
    decide: (stored: StoredConnector) => ConnectorChange | null,
  ): Promise<StoredConnector | null> {
    const isOne = eq(connectors.id, id);
    const changed = this.#sealing(async (transaction) => {
      // Rows that refer to it can still be written: its key stays.
      const [row] = await transaction.select().from(connectors).where(isOne).for("no key update");
      if (!row) return null;
      const current = this.#read(row);
      const change = decide(current);
      if (!change) return current;
      const values = this.#valuesOf(id, change);
      const [next] = await transaction.update(connectors).set(values).where(isOne).returning();
      return next ? this.#read(next) : null;
    });
    return stored(changed);
  }

  /** Everything of an earlier life has been cleaned up: the connector is as it was made. Throws `lease_lost`. */
  async finishCleanup(id: string, term: Term): Promise<void> {
    const values = { initialized: false, resumes: false, ...noRound, sealedCleanup: null };
    const update = (database: Database) =>
      database.update(connectors).set(values).where(eq(connectors.id, id)).execute();
    await stored(fenced(this.#database, { connectorId: id, term }, update));
  }

  /**
   * The run has created slot and checkpoint, or has gone on from them. Throws `state_unavailable` when it is no longer the connector's run, and
   * `lease_lost`.
   */
  async markInitialized(id: string, runId: string, term: Term): Promise<void> {
    await this.#setForRun({ id, runId, term }, { initialized: true, resumes: false });
  }

  /** The run begins to copy everything again. Throws as `markInitialized` does. */
  async beginRound(id: string, runId: string, at: Date, term: Term): Promise<void> {
    await this.#setForRun({ id, runId, term }, { initialized: false, roundBegunAt: at, roundEndedAt: null });
  }

  /** The run has copied everything. Throws as `markInitialized` does. */
  async endRound(id: string, runId: string, at: Date, term: Term): Promise<void> {
    await this.#setForRun({ id, runId, term }, { roundEndedAt: at });
  }

  async #setForRun({ id, runId, term }: RunOfConnector, values: Partial<Row>): Promise<void> {
    const where = and(eq(connectors.id, id), eq(connectors.runId, runId));
    const update = (database: Database) =>
      database.update(connectors).set(values).where(where).returning({ id: connectors.id }).execute();
    const updated = await stored(fenced(this.#database, { connectorId: id, term }, update));
    if (updated.length === 0) throw new MillraceError("state_unavailable", "Another run has taken over.");
  }

  /** Throws `lease_lost` when the term is no longer the connector's. */
  async confirmTerm(id: string, term: Term): Promise<void> {
    await stored(fenced(this.#database, { connectorId: id, term }, async () => {}));
  }

  /**
   * Deletes the connector with its history, tasks, records and lease. Throws `lease_lost`. Renewals wait while the lease is deleted, and all
   * goes with it that refers to the connector: so what may be much goes before.
   */
  async remove(id: string, term: Term): Promise<void> {
    for (const name of ["receipts", "parkedMessages", "requestCuts"] as const)
      await stored(removeInPieces(this.#database, { connectorId: id, term }, name));
    const remove = (database: Database) => database.delete(connectors).where(eq(connectors.id, id)).execute();
    await stored(fenced(this.#database, { connectorId: id, term, lock: "update" }, remove));
  }

  /** In a transaction that a change of the key waits for, or that fails behind it. The key is locked before any connector. */
  #sealing<Result>(work: (database: Database) => PromiseLike<Result>): Promise<Result> {
    return this.#database.transaction(async (transaction) => {
      await holdKey(transaction, this.#cipher);
      return await work(transaction);
    });
  }

  #valuesOf(id: string, { given, cleanup, ...rest }: ConnectorChange) {
    return {
      ...rest,
      ...(given === undefined ? {} : { sealedConfig: this.#seal(id, { given }) }),
      ...(cleanup === undefined ? {} : { sealedCleanup: cleanup && this.#firstCleanup(id, cleanup) }),
    };
  }

  #firstCleanup(id: string, cleanup: ConnectorConfig): SQL {
    return sql`coalesce(${connectors.sealedCleanup}, ${this.#seal(id, cleanup)})`;
  }

  #seal(id: string, config: StoredForm): string {
    return this.#cipher.seal(JSON.stringify(config), associatedData(id));
  }

  #open(id: string, sealed: string): Pick<StoredConnector, "given" | "config"> {
    return readForm(id, JSON.parse(this.#cipher.open(sealed, associatedData(id))) as StoredForm);
  }

  #read(row: Row): StoredConnector {
    const { sealedConfig, sealedCleanup, ...rest } = row;
    const cleanup = sealedCleanup === null ? null : this.#open(row.id, sealedCleanup).config;
    return { ...rest, ...this.#open(row.id, sealedConfig), cleanup };
  }
}

/** Earlier versions stored the full form by itself, as a cleanup still has it. It may lack settings of this version. */
type StoredForm = { readonly given: ConnectorRequest } | ConnectorConfig;

function readForm(id: string, stored: StoredForm): Pick<StoredConnector, "given" | "config"> {
  if ("given" in stored) return { given: stored.given, config: completeConnector(stored.given, id) };
  const config = completeConnector(stored, id);
  return { given: inferGivenForm(config), config };
}

/**
 * Encrypts all configurations under another key, in the transaction of `database`. Returns the number of connectors.
 */
export async function resealConnectors(database: Database, from: Cipher, to: Cipher): Promise<number> {
  const { id, sealedConfig, sealedCleanup } = connectors;
  const rows = await database.select({ id, sealedConfig, sealedCleanup }).from(connectors);
  for (const row of rows) {
    const reseal = (sealed: string) =>
      to.seal(from.open(sealed, associatedData(row.id)), associatedData(row.id));
    const sealed = {
      sealedConfig: reseal(row.sealedConfig),
      sealedCleanup: row.sealedCleanup && reseal(row.sealedCleanup),
    };
    await database.update(connectors).set(sealed).where(eq(connectors.id, row.id));
  }
  return rows.length;
}

export function connectorNotFound(id: string): MillraceError {
  return new MillraceError("connector_not_found", `There is no connector ${id}.`);
}

function associatedData(id: string): string {
  return `connector ${id}`;
}
