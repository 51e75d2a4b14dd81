// Wraps a Postgres sink whose names differ from the source's. It renames columns and types, and drops columns that the sink cannot write. The
// sink itself names tables and schemas.

import { projectBatch } from "../../change/batch-projection.ts";
import type { ChangeBatch, TupleForm } from "../../change/change-batch.ts";
import type { Checkpoint } from "../../change/checkpoint.ts";
import type { ComputedColumns } from "../../change/computed-columns.ts";
import { type TableShape, withVoidCopy } from "../../change/relation.ts";
import type { CopyChunk, CopySink, TableCopy } from "../copy-sink.ts";
import type { PreparedTables, Sink } from "../sink.ts";
import type { UnreadableTable } from "../sink-events.ts";
import type { VerifySink } from "../verify-sink.ts";
import { keepFields } from "./copy-in/copy-fields.ts";
import type { TargetNaming } from "./schema/target-naming.ts";
import { requireSameTypes } from "./types/shared-type-name.ts";

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
    requireSameTypes(
      tables.map(({ relation }) => relation),
      (schema) => this.naming.schema(schema),
    );
    const named = tables.map((table) => this.naming.shape(table));
    const { incomplete = [], ...prepared } = await this.sink.prepare(named, forms, unreadable);
    const given = new Map(tables.map((table) => [table.relation.id, table]));
    const asGiven = (shapes: readonly TableShape[]) =>
      shapes.flatMap(({ relation, coverage }) => {
        const table = given.get(relation.id);
        return table ? [coverage?.isVoid ? withVoidCopy(table) : table] : [];
      });
    return {
      ...prepared,
      missing: asGiven(prepared.missing),
      behind: asGiven(prepared.behind),
      incomplete: incomplete.flatMap(({ table, keys }) =>
        asGiven([table]).map((given) => ({ table: given, keys })),
      ),
    };
  }

  async computed(tables: readonly TableShape[], sourceVersion: number): Promise<ComputedColumns> {
    const named = tables.map((table) => this.naming.shape(table));
    return (await this.sink.computed?.(named, sourceVersion)) ?? new Map();
  }

  get copies(): CopySink {
    const { sink, naming } = this;
    return {
      begin: async (table, mode, stream, stop) =>
        this.#renamed(table, await sink.copies.begin(naming.shape(table), mode, stream, stop)),
      rowsForm: (table) => this.#form(table, sink.copies.rowsForm(naming.shape(table))),
      takeRows: (rows, absent) => sink.copies.takeRows(this.#named(rows), absent),
    };
  }

  /** Columns are compared by their numbers, which a rename keeps. */
  get verification(): VerifySink {
    const { verification } = this.sink;
    if (!verification) throw new Error("a Postgres sink can be compared");
    return {
      resume: (checkpoint, tables) =>
        verification.resume(
          checkpoint,
          tables.map((table) => this.naming.shape(table)),
        ),
      open: (table, stop) => verification.open(this.naming.shape(table), stop),
      proved: (table, haveRowsMoved) => verification.proved(this.naming.shape(table), haveRowsMoved),
    };
  }

  #renamed(table: TableShape, copy: TableCopy): TableCopy {
    return {
      stream: copy.stream,
      start: async (isDivided) => {
        const started = await copy.start(isDivided);
        return { ...started, form: this.#form(table, started.form) };
      },
      take: (chunk) => copy.take(this.#named(chunk)),
      settle: () => copy.settle(),
      finish: (phase) => copy.finish(phase),
      [Symbol.asyncDispose]: () => copy[Symbol.asyncDispose](),
    };
  }

  /** Fields can be dropped only from rows in text form, where separators are never part of a value. */
  #form({ relation }: TableShape, form: TupleForm): TupleForm {
    return this.naming.named(relation).keep === null ? form : "text";
  }

  #named(chunk: CopyChunk): CopyChunk {
    const { keep } = this.naming.named(chunk.table.relation);
    const chunks = keep === null ? chunk.chunks : keepFields(chunk.chunks, keep);
    return { ...chunk, table: this.naming.shape(chunk.table), chunks };
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
