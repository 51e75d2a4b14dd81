// The webhook sink as the pipeline sees it. It hands batches to the webhook worker over a line and reports
// what comes back; cutting, encoding and sending happen there, in webhook-delivery.ts.

import type { ChangeBatch, TupleForm } from "../../change/change-batch.ts";
import type { Checkpoint } from "../../change/checkpoint.ts";
import { copyMark, isStillCopyOf } from "../../change/copy-mark.ts";
import { qualifiedName, type TableShape } from "../../change/relation.ts";
import type { WebhookSinkConfig } from "../../connector/config/sink-config.ts";
import { WebhookCopyBeside, WebhookFirstCopyBeside } from "../delivery/copy/webhook-copy-beside.ts";
import { DeliveryClient } from "../delivery/line/delivery-client.ts";
import type { OwedKeysOf } from "../delivery/line/line-messages.ts";
import { SinkLine } from "../delivery/line/sink-line.ts";
import type {
  BegunCopy,
  CopyBeside,
  CopyRequest,
  OwedRows,
  PreparedTables,
  Sink,
  SinkContext,
  SinkEvents,
  UnreadableTable,
} from "../sink.ts";

/** How long disposing waits for requests that are under way. */
const closeGraceMs = 5000;

/**
 * A sink whose delivering happens at the other end of `line`. The other end has the configuration already,
 * and keeps the checkpoint: `config` and `context.checkpoints` are not used here. Calls reject with a
 * MillraceError once delivering has failed, and with `context.signal.reason` once it is aborted.
 */
export function createWebhookSink(_config: WebhookSinkConfig, context: SinkContext, line: MessagePort): Sink {
  return new WebhookSink(new DeliveryClient(line, context.signal, context.events), context.events);
}

class WebhookSink implements Sink {
  private readonly line: SinkLine;
  #besides = 0;
  /** First copies that are made beside the stream, by their tables' OIDs. */
  readonly #firsts = new Map<number, WebhookFirstCopyBeside>();
  #closed: Promise<void> | null = null;
  /** The stream has brought what it repeats: from the second look at the tables on. */
  #isPastRepetition = false;
  /** Null: nothing was told of them yet, and what an earlier run has told is over. */
  #unreadable: readonly UnreadableTable[] | null = null;

  constructor(
    private readonly client: DeliveryClient,
    private readonly events: Pick<SinkEvents, "mended" | "setAside">,
  ) {
    this.line = new SinkLine(client);
  }

  async open(): Promise<Checkpoint | null> {
    const state = await this.client.ask({ type: "open" });
    return state?.checkpoint ?? null;
  }

  async begin(checkpoint: Checkpoint): Promise<void> {
    await this.client.ask({ type: "begin", checkpoint });
  }

  async goOnIn(log: string): Promise<void> {
    await this.client.ask({ type: "log", log });
  }

  async forget(): Promise<void> {
    await this.client.ask({ type: "forget" });
  }

  async prepare(
    tables: readonly TableShape[],
    _forms: readonly TupleForm[],
    unreadable: readonly UnreadableTable[] = [],
  ): Promise<PreparedTables> {
    const names = unreadable.map(({ table }) => qualifiedName(table.relation));
    // The other end is to know what does not count before it looks at the tables.
    const beingCopied = this.#beingCopied(tables);
    const state = await this.client.ask({ type: "prepare", tables, unreadable: names });
    const missing = new Set(state?.missing);
    for (const { table, isDue } of unreadable) if (!isDue) missing.delete(qualifiedName(table.relation));
    for (const name of beingCopied) missing.delete(name);
    this.#setAside(unreadable);
    const owed = this.#owedNow(tables, state?.owed ?? []);
    return {
      form: "text",
      missing: tables.filter(({ relation }) => missing.has(qualifiedName(relation))),
      behind: [],
      hasChanges: state?.hasChanges === true,
      ...(owed.length > 0 ? { owed } : {}),
    };
  }

  /**
   * Changes that come again after a restart have the versions that they had, so that no copy may take one before them. A run begins
   * with a look at the tables, and takes the next one when nothing is a repetition any more.
   */
  #owedNow(tables: readonly TableShape[], owed: readonly OwedKeysOf[]): readonly OwedRows[] {
    const isFirst = !this.#isPastRepetition;
    this.#isPastRepetition = true;
    if (isFirst && owed.length > 0) this.events.mended();
    if (isFirst) return [];
    const byName = new Map(tables.map((table) => [qualifiedName(table.relation), table]));
    return owed.flatMap(({ name, keys }) => {
      const table = byName.get(name);
      return table ? [{ table, keys }] : [];
    });
  }

  /** Their changes are delivered, but for those of tables without a key. */
  #setAside(unreadable: readonly UnreadableTable[]): void {
    if (unreadable.length === 0 && this.#unreadable?.length === 0) return;
    this.#unreadable = unreadable;
    this.events.setAside(
      unreadable.map(({ table: { relation }, reason }) => ({
        ...{ schema: relation.schema, name: relation.name, since: null },
        ...{ reason, commands: [] },
      })),
    );
  }

  async beginBeside(
    table: TableShape,
    mode: CopyRequest["mode"],
    stop: AbortSignal,
  ): Promise<CopyBeside | null> {
    const beside = ++this.#besides;
    const handle = this.line.handle(table.relation);
    if (mode === "initial") return await this.#beginFirst(table, handle, beside, stop);
    if (table.coverage?.isUnpublished) return null;
    const state = await this.client.ask({ type: "beside.begin", beside, handle, table, isFirst: false });
    if (!state?.isBeside) return null;
    const { begun, isWhole } = state;
    return new WebhookCopyBeside(this.line, beside, stop, isWhole === true, begun);
  }

  async #beginFirst(
    table: TableShape,
    handle: number,
    beside: number,
    stop: AbortSignal,
  ): Promise<CopyBeside | null> {
    const state = await this.client.ask({ type: "beside.first", handle, table });
    if (!state?.isBeside) return null;
    const { id } = table.relation;
    const isWhole = state.isWhole === true;
    const copy = new WebhookFirstCopyBeside(this.line, beside, stop, isWhole, handle, table, {
      made: () => this.#canBeRead(table),
      ended: () => {
        if (this.#firsts.get(id) === copy) this.#firsts.delete(id);
      },
    });
    this.#firsts.set(id, copy);
    return copy;
  }

  /** Names of tables whose first copies are on their way. What is no copy of a table any more does not count when it is made. */
  #beingCopied(tables: readonly TableShape[]): readonly string[] {
    return [...this.#firsts].flatMap(([id, copy]) => {
      const table = tables.find(({ relation }) => relation.id === id);
      if (!isStillCopyOf(copy.table, table)) copy.spoil();
      return table && copy.isSound ? [qualifiedName(table.relation)] : [];
    });
  }

  copyForm(): TupleForm {
    return "text";
  }

  async beginCopy(table: TableShape, goesOn: boolean): Promise<BegunCopy | null> {
    const state = await this.client.ask({ type: "copy.divide", table, goesOn });
    return state?.begun ? { form: "text", ...state.begun } : null;
  }

  async endCopy(table: TableShape): Promise<void> {
    await this.client.ask({ type: "copy.join", table });
    this.#canBeRead(table);
  }

  async copyTable(request: CopyRequest): Promise<void> {
    await this.line.copy(request, copyMark(request.table), null);
    if (!request.part) this.#canBeRead(request.table);
  }

  #canBeRead({ relation }: TableShape): void {
    this.#setAside((this.#unreadable ?? []).filter(({ table }) => table.relation.id !== relation.id));
  }

  aheadOf(): null {
    return null;
  }

  write(batch: ChangeBatch): Promise<void> {
    return this.line.sendChanges(batch);
  }

  async flush(): Promise<void> {
    await this.client.ask({ type: "flush" });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed ??= this.client.close(closeGraceMs);
    await this.#closed;
  }
}
