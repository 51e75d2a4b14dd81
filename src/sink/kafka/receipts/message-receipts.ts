// Gathers what receipts keep of messages, by table, while they are added to the log. Where each of them is in its partition is known once
// brokers have it.

import type { OpenRequest, RowQuestion } from "../../../connector/receipts.ts";
import { textsDigest } from "../../delivery/receipts/key-digest.ts";
import { lastChange } from "../../delivery/receipts/open-requests.ts";
import type { Receipt } from "../../delivery/receipts/receipt.ts";
import { ReceiptRows } from "../../delivery/receipts/receipt-rows.ts";
import type { PlannedRow } from "../../delivery/stream/request-plan.ts";
import type { CompiledTable } from "../../format/compiled-table.ts";
import type { PartitionQueue } from "../produce/round.ts";

/** Messages of one table, in the order in which they were added. */
interface TableMessages {
  readonly schema: string;
  readonly table: string;
  readonly topic: string;
  readonly rows: ReceiptRows;
  /** Of each row: where its message was added, and the message's number there. */
  readonly queues: PartitionQueue[];
  readonly numbers: number[];
}

type Gathered = ReadonlyMap<string, TableMessages>;

/** What was gathered at one time. */
export interface TakenMessages {
  /** Once brokers have all of it. Call it once. */
  receipts(atMs: number, ms: number): readonly Receipt[];
}

export class MessageReceipts {
  #tables = new Map<string, TableMessages>();
  #rows = 0;
  /** Taken, and not known to be with the brokers. */
  readonly #sending = new Set<Gathered>();

  get rows(): number {
    return this.#rows;
  }

  /** The row's message is the next one that is added to the queue. */
  add(table: CompiledTable, row: PlannedRow, queue: PartitionQueue): void {
    const gathered = this.#of(table, queue.topic);
    gathered.rows.add(table, row);
    if (gathered.rows.count === gathered.queues.length) return;
    gathered.queues.push(queue);
    gathered.numbers.push(queue.added);
    queue.offsets.await();
    this.#rows++;
  }

  /** Null: nothing was gathered. */
  take(): TakenMessages | null {
    if (this.#rows === 0) return null;
    const taken = this.#tables;
    this.#tables = new Map();
    this.#rows = 0;
    this.#sending.add(taken);
    return {
      receipts: (atMs, ms) => {
        this.#sending.delete(taken);
        const receipts = [...taken.values()].flatMap((each) => receiptOf(each, atMs, ms));
        forgetOffsets([...taken.values()]);
        return receipts;
      },
    };
  }

  /** Messages of the row that brokers may not have. */
  find({ schema, name, key }: RowQuestion): readonly OpenRequest[] {
    const digest = textsDigest(key);
    return [...this.#sending, this.#tables].flatMap((gathered) =>
      [...gathered.values()].flatMap(({ schema: ofSchema, table, rows }): OpenRequest[] => {
        const change = ofSchema === schema && table === name ? lastChange(rows, digest) : undefined;
        return change ? [{ idempotency_key: null, state: "Sending", attempts: 0, last_change: change }] : [];
      }),
    );
  }

  #of({ name, relation }: CompiledTable, topic: string): TableMessages {
    const known = this.#tables.get(name);
    if (known) return known;
    const { schema, name: table } = relation;
    const made = { schema, table, topic, rows: new ReceiptRows(true), queues: [], numbers: [] };
    this.#tables.set(name, made);
    return made;
  }
}

function receiptOf(
  { schema, table, topic, rows, queues, numbers }: TableMessages,
  atMs: number,
  ms: number,
): Receipt[] {
  const { count } = rows;
  if (count === 0) return [];
  const partitions = queues.map(({ partition }) => partition);
  const offsets = queues.map(({ offsets }, row) => offsets.of(numbers[row]!));
  return [
    {
      schema,
      table,
      topic,
      key: null,
      outcome: "delivered",
      attempts: 1,
      status: 0,
      ms,
      firstAtMs: atMs,
      lastAtMs: atMs,
      rows: { ...rows, partitions, offsets },
    },
  ];
}

/** Tables may share a partition: all of them have asked by now. */
function forgetOffsets(tables: readonly TableMessages[]): void {
  const counts = new Map<PartitionQueue, { count: number; last: number }>();
  for (const { queues, numbers } of tables) {
    queues.forEach((queue, row) => {
      const { count, last } = counts.get(queue) ?? { count: 0, last: -1 };
      counts.set(queue, { count: count + 1, last: Math.max(last, numbers[row]!) });
    });
  }
  for (const [queue, { count, last }] of counts) queue.offsets.forget(count, last);
}
