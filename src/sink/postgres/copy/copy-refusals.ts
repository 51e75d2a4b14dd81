// What the sink's tables refuse of copies: it is told, the next copy of such a table is made with care, and a table that cannot take its first
// one is set aside.

import type { Client } from "pg";
import type { Relation } from "../../../change/relation.ts";
import { Turns } from "../../../connection/turns.ts";
import type { PostgresSinkConfig } from "../../../connector/config/sink-config.ts";
import type { ErrorCode } from "../../../errors/error-codes.ts";
import type { MillraceError } from "../../../errors/millrace-error.ts";
import type { SinkContext } from "../../sink.ts";
import { mendDenial } from "../checks/privileges.ts";
import { refusedNull } from "../checks/remedy.ts";
import { MigrationRefused } from "../schema/migration-refused.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import type { SinkTables } from "../sink-tables.ts";
import { isValueRefused, misfitRefused } from "../types/misfit-type.ts";
import { describeRefusedCopy } from "./refused-rows.ts";
import type { ApplySession } from "./sink-copies.ts";

const refusals: ReadonlySet<ErrorCode> = new Set(["sink_rejected_rows", "sink_schema_mismatch"]);

export class CopyRefusals {
  /** Tables whose last copy failed, by OID at the source. */
  readonly #refused = new Set<number>();
  readonly #turns = new Turns();

  constructor(
    private readonly config: PostgresSinkConfig,
    private readonly naming: TargetNaming,
    private readonly context: SinkContext,
    private readonly tables: SinkTables,
    private readonly apply: Pick<ApplySession, "guard" | "resumeLsn">,
  ) {}

  /** Its last copy may have ended because a row was refused. */
  isTraced({ id }: Relation): boolean {
    return this.context.isAfterRefusal === true || this.#refused.has(id);
  }

  copied({ id }: Relation): void {
    this.#refused.delete(id);
  }

  /** What went wrong, with the sink's table. The next copy of a table whose rows were refused is made with care. */
  told(relation: Relation, error: unknown): MillraceError {
    const names = relation.columns.map(({ name }) => name);
    const target = this.naming.target(relation);
    const told =
      mendDenial(error, this.config.connection.user, target) ?? describeRefusedCopy(error, target, names);
    if (refusals.has(told.code)) this.#refused.add(relation.id);
    return told;
  }

  /**
   * Between two batches. A table that has no copy yet, and cannot get one, must not keep the others waiting for theirs: the next run goes
   * on without it. Several may be refused at once, and the session that applies is one.
   */
  async setAside(relation: Relation, error: unknown): Promise<void> {
    const endTurn = await this.#turns.take();
    try {
      await this.#setAsideNow(relation, error);
    } finally {
      endTurn();
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
    if (isValueRefused(error)) return await misfitRefused(client, this.naming.target(relation), relation);
    return refusedNull(error)?.refusal ?? null;
  }
}
