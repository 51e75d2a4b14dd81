// Makes messages of rows: key, value and headers, written into buffers that are used again, and puts them where their key belongs.

import { qualifiedName, type Relation } from "../../change/relation.ts";
import type { KafkaMessages } from "../../connector/config/kafka/kafka-format.ts";
import { MillraceError } from "../../errors/millrace-error.ts";
import { messageKey } from "../../errors/row-in-reason.ts";
import type { PlannedRow } from "../delivery/stream/request-plan.ts";
import type { TransactionBoundary } from "../delivery/stream/transaction-counts.ts";
import type { CompiledTable } from "../format/compiled-table.ts";
import { IdempotencyKey, RowPart } from "../format/idempotency-key.ts";
import type { KeyEncoder } from "../format/key-encoder.ts";
import { ByteWriter } from "../format/values/byte-writer.ts";
import { bodyChunks, releaseBody } from "../format/values/message-body.ts";
import type { TupleView } from "../format/values/tuple-view.ts";
import type { BoundaryEncoder } from "./boundary-encoder.ts";
import { partitionOf } from "./client/partitioner.ts";
import { toldKey } from "./client/told-key.ts";
import { type MessageHeaders, plainHeaders } from "./message-headers.ts";
import type { MessageRow, RefusedRecords } from "./parking/refused-records.ts";
import { rowName } from "./parking/row-name.ts";
import type { ProducerLog } from "./produce/producer-log.ts";
import type { PartitionQueue } from "./produce/round.ts";
import type { KafkaReceipts } from "./receipts/kafka-receipts.ts";

/** A table, and where its messages go. */
export interface KafkaTable extends CompiledTable {
  /** Null: its rows have no key. */
  readonly key: KeyEncoder | null;
  readonly headers: MessageHeaders;
  /** Of its topic, by partition. */
  readonly queues: readonly PartitionQueue[];
}

/** Where the beginnings and ends of transactions go. */
export interface BoundaryTopic {
  readonly queues: readonly PartitionQueue[];
  readonly encoder: BoundaryEncoder;
}

const noColumns: readonly number[] = [];
const noHeaders = plainHeaders([]);
/** Of a record beside key, value and headers, at most. */
const recordBytes = 32;
/** Key and value of a message that brokers refuse. No topic is made for smaller ones alone. */
const leastRefusedBytes = 256;

export class MessageWriter {
  readonly #key = new ByteWriter();
  readonly #otherKey = new ByteWriter();
  readonly #value = new ByteWriter();
  readonly #headers = new ByteWriter();
  readonly #idempotencyKey = new IdempotencyKey(new Uint8Array());
  readonly #name = new IdempotencyKey(new Uint8Array());
  readonly #writeIdempotencyKey = (out: ByteWriter) => this.#idempotencyKey.finishInto(out);

  constructor(
    private readonly log: Pick<ProducerLog, "add">,
    private readonly messages: Pick<KafkaMessages, "tombstones">,
    private readonly maxMessageBytes: number,
    /** What brokers have refused. Null: what is refused is not parked. */
    private readonly refused: RefusedRecords | null = null,
    /** Hears of the message of a row before it is added. */
    private readonly receipts: Pick<KafkaReceipts, "add"> | null = null,
  ) {}

  /** Adds the row's messages, and returns their bytes. Throws `kafka_message_too_large`. `parkedId`: it was parked under this id, and is sent again. */
  addRow(table: KafkaTable, row: PlannedRow, parkedId: string | null = null): number {
    const { identity } = row;
    const value = this.#value;
    // Of a row before it that did not fit there may be some left.
    value.clear();
    table.encoder.writeRow(value, row.arena, row.before, row.after, row.context);
    if (identity === null) return this.#addToAll(table, row);
    const key = this.#keyOf(table, row.arena, identity, this.#key);
    this.#writeHeaders(table, row);
    const whole = this.#whole(value);
    this.#requireFits(table, key, whole);
    const queue = queueOf(table, key);
    const bytes = (key?.length ?? 0) + whole.length;
    const message = this.#requireTaken(table, row, bytes, parkedId);
    this.receipts?.add(table, row, queue);
    this.log.add(queue, key, whole, this.#headers, message);
    // So that compaction removes the key.
    if (row.context.operation === "delete" && key !== null && this.messages.tombstones)
      this.log.add(queue, key, null, noHeaders);
    return bytes;
  }

  /** Adds the beginning or the end of a transaction. */
  addBoundary({ queues, encoder }: BoundaryTopic, boundary: TransactionBoundary): number {
    const key = this.#key;
    key.clear();
    encoder.writeKey(key, boundary);
    const value = this.#value;
    value.clear();
    encoder.writeValue(value, boundary);
    this.log.add(queues[partitionOf(key.bytes, key.length, queues.length)]!, key, value, noHeaders);
    return key.length + value.length;
  }

  /** A TRUNCATE is of no key: it goes to every partition once. */
  #addToAll(table: KafkaTable, row: PlannedRow): number {
    this.#writeHeaders(table, row);
    for (const queue of table.queues) this.log.add(queue, null, this.#value, this.#headers);
    return this.#value.length * table.queues.length;
  }

  #keyOf(table: KafkaTable, arena: Uint8Array, tuple: TupleView, out: ByteWriter): ByteWriter | null {
    if (!table.key) return null;
    out.clear();
    table.key.writeKey(out, arena, tuple);
    return this.#whole(out);
  }

  #writeHeaders(table: KafkaTable, { arena, identity, moved, moment, context, after }: PlannedRow): void {
    const { headers, keyMaterial, identity: columns } = table;
    if (headers.hasIdempotencyKey) {
      this.#idempotencyKey.begin(keyMaterial);
      this.#idempotencyKey.addRow(arena, identity ?? after, identity ? columns : noColumns, moment);
    }
    const other = moved && headers.hasOtherKey ? this.#keyOf(table, arena, moved, this.#otherKey) : null;
    this.#headers.clear();
    headers.write(
      this.#headers,
      context.operation,
      this.#writeIdempotencyKey,
      other && { key: other, isNew: moment.part === RowPart.keyRemoved },
    );
  }

  /** With large values, which a writer only remembers. */
  #whole(out: ByteWriter): ByteWriter {
    if (out.size === out.length) return out;
    const { size } = out;
    if (size > this.maxMessageBytes) return out;
    const whole = new ByteWriter(size);
    const body = out.takeBody();
    for (const chunk of bodyChunks(body)) whole.all(chunk);
    releaseBody(body);
    return whole;
  }

  /** Brokers have not refused it, or a smaller one of the row, in an earlier session. Returns the row, for where they refuse it in this one. */
  #requireTaken(
    table: KafkaTable,
    row: PlannedRow,
    bytes: number,
    parkedId: string | null,
  ): MessageRow | null {
    const { refused } = this;
    if (parkedId === null && (refused === null || bytes < leastRefusedBytes)) return null;
    const { schema, name: tableName } = table.relation;
    const name = rowName(table, row, this.#name);
    // Brokers may take by now what they refused.
    const text = parkedId === null ? (refused?.reasonOf(name, bytes) ?? null) : null;
    if (text !== null)
      throw new MillraceError("kafka_message_too_large", text, {
        table: { schema, name: tableName, commands: [] },
      });
    return { name, bytes, position: row.position(), version: row.context.version, parkedId };
  }

  #requireFits({ relation, queues }: KafkaTable, key: ByteWriter | null, value: ByteWriter): void {
    const bytes = (key?.size ?? 0) + value.size + this.#headers.length + recordBytes;
    if (bytes <= this.maxMessageBytes) return;
    throw messageTooLarge(relation, queues[0]!.topic, key, bytes, this.maxMessageBytes);
  }
}

function messageTooLarge(
  relation: Pick<Relation, "schema" | "name">,
  topic: string,
  key: ByteWriter | null,
  bytes: number,
  maxBytes: number,
): MillraceError {
  const named = messageKey(key && toldKey(key.bytes.subarray(0, key.length)));
  const text =
    `A row of table ${qualifiedName(relation)} makes a message of ${bytes} bytes, and message_max_bytes is ${maxBytes} (topic ${topic}, ${named}). ` +
    "Nothing is skipped. Set message_max_bytes, and the topic's max.message.bytes, above that, or exclude the large column; then start the connector.";
  const { schema, name } = relation;
  return new MillraceError("kafka_message_too_large", text, { table: { schema, name, commands: [] } });
}

/** Without a key all messages of a table stay in their order, in one partition. */
function queueOf({ queues, keyMaterial }: KafkaTable, key: ByteWriter | null): PartitionQueue {
  if (queues.length === 1) return queues[0]!;
  if (key) return queues[partitionOf(key.bytes, key.length, queues.length)]!;
  return queues[partitionOf(keyMaterial, keyMaterial.length, queues.length)]!;
}
