// Handles refused copies: it describes the error, has the next copy of the table traced, and sets a table aside that cannot take its first copy.

import type { Client } from "pg";
import type { Relation } from "../../../change/relation.ts";
import { Semaphore } from "../../../concurrency/semaphore.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { ErrorCode } from "../../../errors/error-codes.ts";
import type { MillraceError } from "../../../errors/millrace-error.ts";
import type { SinkContext } from "../../sink.ts";
import type { ApplySession } from "../apply-session.ts";
import { describeDenial } from "../checks/privileges.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import type { SinkTables } from "../sink-tables.ts";
import { isValueRefused } from "../types/incompatible-type.ts";
import { MigrationRefused } from "./migration-refused.ts";
import { describeRefusedCopy } from "./refused-rows.ts";
import { isTypeRefused, ofMismatch, withRemedy } from "./refused-table.ts";
import { refusedNull } from "./remedy.ts";

const refusals: ReadonlySet<ErrorCode> = new Set(["sink_rejected_rows", "sink_schema_mismatch"]);

export class CopyRefusals {
  /** Tables whose last copy failed, by OID at the source. */
  readonly #refused = new Set<number>();
  readonly #permits = new Semaphore();

  constructor(
    private readonly config: PostgresSinkConfig,
    private readonly naming: TargetNaming,
    private readonly context: SinkContext,
    private readonly tables: SinkTables,
    private readonly apply: Pick<ApplySession, "guard" | "resumeLsn">,
  ) {}

  /** Whether the table's last copy may have been refused: the next one finds the row. */
  isTraced({ id }: Relation): boolean {
    return this.context.isAfterRefusal === true || this.#refused.has(id);
  }

  copied({ id }: Relation): void {
    this.#refused.delete(id);
  }

  /** Describes the error with the target. If rows were refused, the table's next copy is traced. */
  described(relation: Relation, error: unknown): MillraceError {
    const names = relation.columns.map(({ name }) => name);
    const target = this.naming.target(relation);
    const described =
      describeDenial(error, this.config.connection.user, target) ?? describeRefusedCopy(error, target, names);
    if (refusals.has(described.code)) this.#refused.add(relation.id);
    return described;
  }

  /**
   * Between two batches: sets the table aside if it cannot get its first copy, so that the next run copies the others. Otherwise they wait for
   * it. Returns the error that says so. Several copies may be refused at once, but only one at a time may use the session that applies.
   */
  async refused(relation: Relation, error: unknown): Promise<MillraceError> {
    const described = this.described(relation, error);
    const release = await this.#permits.acquire();
    try {
      return await this.apply.guard(async (client) => {
        if (await this.#setAside(client, relation, error)) return described;
        if (described.code === "sink_schema_mismatch") return ofMismatch(described, relation);
        if (described.code !== "sink_rejected_rows") return described;
        return await withRemedy(client, this.naming.target(relation), relation, described);
      });
    } finally {
      release();
    }
  }

  /** Returns whether the table is set aside. */
  async #setAside(client: Client, relation: Relation, error: unknown): Promise<boolean> {
    if (this.tables.ledger.holds(relation) || !this.context.makesCopies) return false;
    const refusal = await this.#refusalOf(client, relation, error);
    const { column = null } = refusal ?? {};
    const isOurs = column === null || relation.columns.some(({ name }) => name === column);
    if (!refusal || !isOurs) return false;
    await this.tables.setAside.add(client, relation, refusal, this.apply.resumeLsn());
    return true;
  }

  async #refusalOf(client: Client, relation: Relation, error: unknown): Promise<MigrationRefused | null> {
    if (isValueRefused(error)) {
      const refusal = await this.tables.incompatible(client, relation);
      if (refusal) return refusal;
    }
    const refusal = error instanceof MigrationRefused ? error : (refusedNull(error)?.refusal ?? null);
    const isOfType = isTypeRefused(error);
    if (!refusal && !isOfType) return null;
    const nullColumn = refusal?.column ?? null;
    const asked = { relation, nullColumn, reported: refusal?.commands ?? [], isOfType };
    const [now] = await this.tables.registry.checkMigrations(client, [asked]);
    return now ?? refusal;
  }
}
