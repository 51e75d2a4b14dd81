// The computed columns of a run's targets: which of the source's generated columns this server can compute, and that the
// targets which follow their tables have them.

import type { Client } from "pg";
import type { ComputedColumns } from "../../../change/computed-columns.ts";
import type { Relation, TableShape } from "../../../change/relation.ts";
import { isFollowed, type ShapeLedger } from "../bookkeeping/shape-ledger.ts";
import type { MigrationStrategy } from "../schema/migration/table-migration.ts";
import type { TargetCatalog } from "../schema/target-catalog.ts";
import type { TargetNaming } from "../schema/target-naming.ts";
import { readTargetTable, type TargetTable } from "../schema/target-table.ts";
import { computedAnswers } from "./computed-answers.ts";
import { makeComputed } from "./make-computed.ts";

export class ComputedTargets {
  constructor(
    private readonly strategy: MigrationStrategy,
    private readonly naming: TargetNaming,
    private readonly shapes: ShapeLedger,
    private readonly catalog: TargetCatalog,
    private readonly warn: (reason: string | null) => void,
  ) {}

  /** See `Sink.computed`. In no transaction. */
  async answers(
    client: Client,
    tables: readonly TableShape[],
    sourceVersion: number,
  ): Promise<ComputedColumns> {
    const { naming, shapes, strategy } = this;
    return await computedAnswers(client, { naming, shapes, strategy, sourceVersion }, tables);
  }

  /** Whether some targets have generated columns, or are to get some, as of the last refresh. */
  get areAny(): boolean {
    return this.catalog.computing.length > 0;
  }

  /** In the open transaction: every target that follows its table gets the columns that it lacks. */
  async makeAll(client: Client): Promise<void> {
    this.warn(null);
    for (const { shape, target } of this.catalog.computing) await this.make(client, target, shape.relation);
  }

  /** In the open transaction, once the target follows the table as it is at the source now. Returns the target as it is then. */
  async make(client: Client, table: TargetTable, relation: Relation): Promise<TargetTable> {
    const shape = this.catalog.shapeOf(relation.id);
    const isCurrent = shape !== null && isFollowed(this.shapes.of(relation), shape.relation);
    if (!isCurrent || this.naming.isShared(relation)) return table;
    const isMade = await makeComputed(client, table, shape, this.strategy, this.warn);
    return isMade ? ((await readTargetTable(client, table.target)) ?? table) : table;
  }
}
