// A sink of messages as the pipeline sees it. It hands batches to the transport's worker over a line and reports
// what comes back; cutting, encoding and sending happen there, in delivery-session.ts.

import type { ChangeBatch, TupleForm } from "../../change/change-batch.ts";
import type { Checkpoint } from "../../change/checkpoint.ts";
import { qualifiedName, type TableShape } from "../../change/relation.ts";
import type { CopySink } from "../copy-sink.ts";
import type { ReplaySink } from "../replay-sink.ts";
import type { PreparedTables, Sink, SinkContext } from "../sink.ts";
import type { UnreadableTable } from "../sink-events.ts";
import { MessageCopies } from "./copy/message-copies.ts";
import { DeliveryClient } from "./line/delivery-client.ts";
import { SinkLine } from "./line/sink-line.ts";

/** How long disposing waits for requests that are under way. */
const closeGraceMs = 5000;

type MessageSinkContext = Pick<SinkContext, "signal" | "events" | "makesCopies">;

/**
 * A sink whose delivering happens at the other end of `line`, which has the configuration and keeps the checkpoint. Calls reject with a
 * MillraceError once delivering has failed, and with `context.signal.reason` once it is aborted.
 * @param maxLineBytes what of the stream may be on its way to the other end; absent: what copies may
 */
export function createMessageSink(
  context: MessageSinkContext,
  line: MessagePort,
  maxLineBytes?: number,
): Sink {
  return new MessageSink(new DeliveryClient(line, context.signal, context.events, maxLineBytes), context);
}

class MessageSink implements Sink {
  private readonly line: SinkLine;
  readonly copies: CopySink;
  readonly replays: ReplaySink;
  #closed: Promise<void> | null = null;
  /** Null: nothing was told of them yet, and what an earlier run has told is over. */
  #unreadable: readonly UnreadableTable[] | null = null;

  constructor(
    private readonly client: DeliveryClient,
    private readonly context: MessageSinkContext,
  ) {
    this.line = new SinkLine(client);
    const copies = new MessageCopies(this.line, (table) => this.#canBeRead(table));
    this.copies = copies;
    this.replays = { begin: (table, replay, stop) => copies.beginReplay(table, replay, stop) };
  }

  async open(): Promise<Checkpoint | null> {
    return await this.client.ask({ type: "open" });
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
    const { makesCopies } = this.context;
    const names = unreadable.map(({ table }) => qualifiedName(table.relation));
    const prepared = await this.client.ask({ type: "prepare", tables, unreadable: names, makesCopies });
    const missing = new Set(prepared.missing);
    for (const { table, isDue } of unreadable) if (!isDue) missing.delete(qualifiedName(table.relation));
    this.#setAside(unreadable);
    const byName = new Map(tables.map((table) => [qualifiedName(table.relation), table]));
    const incomplete = prepared.incomplete.flatMap(({ name, keys }) => {
      const table = byName.get(name);
      return table ? [{ table, keys }] : [];
    });
    return {
      form: "text",
      missing: tables.filter(({ relation }) => missing.has(qualifiedName(relation))),
      behind: [],
      hasChanges: prepared.hasChanges,
      ...(incomplete.length > 0 ? { incomplete } : {}),
    };
  }

  /** Their changes are delivered, but for those of tables without a key. */
  #setAside(unreadable: readonly UnreadableTable[]): void {
    if (unreadable.length === 0 && this.#unreadable?.length === 0) return;
    this.#unreadable = unreadable;
    this.context.events.setAside(
      unreadable.map(({ table: { relation }, reason }) => ({
        schema: relation.schema,
        name: relation.name,
        since: null,
        reason,
        commands: [],
      })),
    );
  }

  #canBeRead({ relation }: TableShape): void {
    this.#setAside((this.#unreadable ?? []).filter(({ table }) => table.relation.id !== relation.id));
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
