// Stands before a Postgres sink where names are others than the source's: it hears of columns and types by the names that they
// have at the sink, and of no column that it cannot write. What tables and schemas are called is the sink's own matter.

import { projectBatch } from "../../change/batch-projection.ts";
import type { ChangeBatch, TupleForm } from "../../change/change-batch.ts";
import type { Checkpoint } from "../../change/checkpoint.ts";
import type { Lsn } from "../../change/lsn.ts";
import type { Relation, TableShape } from "../../change/relation.ts";
import type { BegunCopy, CopyBeside, CopyRequest, PreparedTables, Sink, UnreadableTable } from "../sink.ts";
import { keepFields } from "./copy/copy-fields.ts";
import type { TargetNaming } from "./schema/target-naming.ts";

export class RenamingSink implements Sink {
  constructor(
    private readonly sink: Sink,
    private readonly naming: TargetNaming,
  ) {}

  open(): Promise<Checkpoint | null> {
    return this.sink.open();
  }

  begin(checkpoint: Checkpoint): Promise<void> {
    return this.sink.begin(checkpoint);
  }

  goOnIn(log: string): Promise<void> {
    return this.sink.goOnIn(log);
  }

  forget(keepsShapes: boolean): Promise<void> {
    return this.sink.forget(keepsShapes);
  }

  async prepare(
    tables: readonly TableShape[],
    forms: readonly TupleForm[],
    unreadable?: readonly UnreadableTable[],
  ): Promise<PreparedTables> {
    const named = new Map(tables.map((table) => [this.naming.shape(table), table]));
    const { owed = [], ...prepared } = await this.sink.prepare([...named.keys()], forms, unreadable);
    const asTold = (shapes: readonly TableShape[]) => shapes.flatMap((shape) => named.get(shape) ?? []);
    return {
      ...prepared,
      missing: asTold(prepared.missing),
      behind: asTold(prepared.behind),
      owed: owed.flatMap(({ table, keys }) => asTold([table]).map((told) => ({ table: told, keys }))),
    };
  }

  /** Fields are left out of rows as text: they end where they seem to. */
  copyForm(table: TableShape): TupleForm {
    const { keep } = this.naming.named(table.relation);
    return keep === null ? this.sink.copyForm(this.naming.shape(table)) : "text";
  }

  async beginCopy(table: TableShape, goesOn: boolean): Promise<BegunCopy | null> {
    const { keep } = this.naming.named(table.relation);
    const begun = await this.sink.beginCopy(this.naming.shape(table), goesOn);
    return begun && keep !== null ? { ...begun, form: "text" } : begun;
  }

  endCopy(table: TableShape): Promise<void> {
    return this.sink.endCopy(this.naming.shape(table));
  }

  copyTable(request: CopyRequest): Promise<void> {
    return this.sink.copyTable(this.#named(request));
  }

  async beginBeside(
    table: TableShape,
    mode: CopyRequest["mode"],
    stop: AbortSignal,
  ): Promise<CopyBeside | null> {
    const { keep } = this.naming.named(table.relation);
    const copy = await this.sink.beginBeside(this.naming.shape(table), mode, stop);
    return (
      copy && {
        get form() {
          return keep === null ? copy.form : "text";
        },
        divide: () => copy.divide(),
        takesAfterPoint: copy.takesAfterPoint,
        takesInTurn: copy.takesInTurn,
        laysAside: copy.laysAside,
        waitsForOthers: copy.waitsForOthers,
        ...(copy.watch ? { watch: async () => await copy.watch?.() } : {}),
        take: (request) => copy.take(this.#named(request)),
        compare: () => copy.compare(),
        settle: () => copy.settle(),
        [Symbol.asyncDispose]: () => copy[Symbol.asyncDispose](),
      }
    );
  }

  aheadOf(relation: Relation): Lsn | null {
    return this.sink.aheadOf(relation);
  }

  #named(request: CopyRequest): CopyRequest {
    const { keep } = this.naming.named(request.table.relation);
    const chunks = keep === null ? request.chunks : keepFields(request.chunks, keep);
    return { ...request, table: this.naming.shape(request.table), chunks };
  }

  write(batch: ChangeBatch): Promise<void> {
    const named = batch.relations.map((relation) => this.naming.named(relation));
    const relations = named.map(({ relation }) => relation);
    return this.sink.write(
      projectBatch(
        batch,
        relations,
        named.map(({ keep }) => keep),
      ),
    );
  }

  flush(): Promise<void> {
    return this.sink.flush();
  }

  [Symbol.asyncDispose](): PromiseLike<void> {
    return this.sink[Symbol.asyncDispose]();
  }
}
