// Handles refused copies: it describes the error, has the next copy of the table traced, and sets a table aside that cannot take its first copy.

import type { Client } from "pg";
import type { Relation } from "../../../change/relation.ts";
import { Semaphore } from "../../../connection/semaphore.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { ErrorCode } from "../../../errors/error-codes.ts";
import type { MillraceError } from "../../../errors/millrace-error.ts";
import type { SinkContext } from "../../sink.ts";
import { describeDenial } from "../checks/privileges.ts";
import type { ApplySession } from "../copy/apply-session.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import type { SinkTables } from "../sink-tables.ts";
import { incompatibleTypeRefused, isValueRefused } from "../types/incompatible-type.ts";
import { MigrationRefused } from "./migration-refused.ts";
import { describeRefusedCopy } from "./refused-rows.ts";
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
   * Between two batches: sets the table aside if it cannot get its first copy, so that the next run copies the others. Several copies may be
   * refused at once, but only one at a time may use the session that applies.
   */
  async setAside(relation: Relation, error: unknown): Promise<void> {
    const release = await this.#permits.acquire();
    try {
      await this.#setAsideNow(relation, error);
    } finally {
      release();
    }
  }

  async #setAsideNow(relation: Relation, error: unknown): Promise<void> {
    if (this.tables.ledger.holds(relation) || !this.context.makesCopies) return;
    await this.apply.guard(async (client) => {
      const refusal = await this.#refusalOf(client, relation, error);
      const { column = null } = refusal ?? {};
      const isOurs = column === null || relation.columns.some(({ name }) => name === column);
      if (refusal && isOurs)
        await this.tables.setAside.add(client, relation, refusal, this.apply.resumeLsn());
    });
  }

  async #refusalOf(client: Client, relation: Relation, error: unknown): Promise<MigrationRefused | null> {
    if (error instanceof MigrationRefused) return error;
    if (isValueRefused(error))
      return await incompatibleTypeRefused(client, this.naming.target(relation), relation);
    return refusedNull(error)?.refusal ?? null;
  }
}
