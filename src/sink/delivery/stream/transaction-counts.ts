// What Debezium calls transaction metadata: the place of each row in its transaction, and a message where a transaction begins and where
// it ends. Each of these is a request of its own, so that it is the same wherever the stream was cut.
// https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-transaction-metadata

import type { Lsn } from "../../../change/lsn.ts";
import { type ConnectSchema, connectField, plain, schemaOpening } from "../../format/connect-schema.ts";
import { IdempotencyKey, RowPart, tableMaterial } from "../../format/idempotency-key.ts";
import type { TransactionTopic } from "../../format/message-encoding.ts";
import { TupleView } from "../../format/values/tuple-view.ts";
import type { OutgoingRequest } from "./outgoing-request.ts";

/** The transaction that the stream is in, and the rows that it has made so far. */
export interface OpenTransaction {
  readonly commitLsn: Lsn;
  /** Microseconds since 1970-01-01 UTC. */
  readonly commitTimeUs: number;
  readonly xid: number;
  readonly rows: number;
  /** By `schema.table`. */
  readonly tables: ReadonlyMap<string, number>;
}

export interface TransactionCountsOptions extends TransactionTopic {
  readonly isBare: boolean;
}

type Begun = Pick<OpenTransaction, "commitLsn" | "commitTimeUs" | "xid">;
type Submit = (boundary: TransactionBoundary) => void;

/** The beginning or the end of a transaction, as a request. */
export interface TransactionBoundary extends OutgoingRequest {
  readonly body: Uint8Array<ArrayBuffer>;
  readonly metadata: TransactionMetadata;
}

/** What a boundary says, as Debezium names it. */
export interface TransactionMetadata {
  readonly status: "BEGIN" | "END";
  readonly id: string;
  readonly event_count: number | null;
  readonly data_collections:
    | readonly { readonly data_collection: string; readonly event_count: number }[]
    | null;
  readonly ts_ms: number;
}

/** As each change names it. */
function transactionId({ xid, commitLsn }: Begun): string {
  return `${xid}:${commitLsn}`;
}

export class TransactionCounts {
  #begun: Begun | null;
  #rows: number;
  readonly #tables: Map<string, number>;

  /** `open`: the transaction that the stream goes on in. */
  constructor(
    private readonly options: TransactionCountsOptions,
    open: OpenTransaction | null,
  ) {
    this.#begun = open;
    this.#rows = open?.rows ?? 0;
    this.#tables = new Map(open?.tables);
  }

  get open(): OpenTransaction | null {
    return this.#begun && { ...this.#begun, rows: this.#rows, tables: new Map(this.#tables) };
  }

  /** A change of this transaction comes next. */
  enter(transaction: Begun, submit: Submit): void {
    if (this.#begun?.commitLsn === transaction.commitLsn) return;
    this.end(submit);
    const { commitLsn, commitTimeUs, xid } = transaction;
    this.#begun = { commitLsn, commitTimeUs, xid };
    submit(this.#boundary(this.#begun, "BEGIN"));
  }

  /** Counts a row. Returns which it is, in its transaction and among those of its table. */
  count(table: string): readonly [total: number, ofTable: number] {
    const ofTable = (this.#tables.get(table) ?? 0) + 1;
    this.#tables.set(table, ofTable);
    return [++this.#rows, ofTable];
  }

  /** The stream has come to `resumeLsn`: a transaction that was committed before has ended. */
  reached(resumeLsn: Lsn, submit: Submit): void {
    if (this.#begun && this.#begun.commitLsn < resumeLsn) this.end(submit);
  }

  /** The transaction, if there is one, has ended. */
  end(submit: Submit): void {
    if (this.#begun === null) return;
    submit(this.#boundary(this.#begun, "END"));
    this.#begun = null;
    this.#rows = 0;
    this.#tables.clear();
  }

  #boundary(begun: Begun, status: "BEGIN" | "END"): TransactionBoundary {
    const { schema, table, isBare, embedSchema } = this.options;
    const id = transactionId(begun);
    const isEnd = status === "END";
    const collections = [...this.#tables].map(([name, count]) => ({
      data_collection: name,
      event_count: count,
    }));
    const metadata: TransactionMetadata = {
      status,
      id,
      event_count: isEnd ? this.#rows : null,
      data_collections: isEnd ? collections : null,
      ts_ms: Math.floor(begun.commitTimeUs / 1000),
    };
    const payload = JSON.stringify(metadata);
    const json = embedSchema ? `${schemaOpening(boundarySchema)}${payload}}` : payload;
    const key = new IdempotencyKey(tableMaterial(`${schema}.${table}`, id));
    const part = isEnd ? RowPart.transactionEnd : RowPart.transactionBegin;
    const { commitTimeUs, commitLsn } = begun;
    key.addRow(new Uint8Array(), new TupleView(), [], { commitTimeUs, ordinal: 0, part });
    return {
      schema,
      table,
      rows: 0,
      barrier: false,
      metadata,
      body: new TextEncoder().encode(isBare ? json : `[${json}]`),
      idempotencyKey: key.finish(),
      // The end of a transaction is sent after its beginning. Transactions need not wait for each other.
      touches: [Number(BigInt.asIntN(32, commitLsn))],
      position: { commitLsn, ordinal: 0 },
    };
  }
}

const collectionSchema: ConnectSchema = {
  type: "struct",
  optional: false,
  name: "event.collection",
  version: 1,
  fields: [connectField("data_collection", "string", false), connectField("event_count", "int64", false)],
};

export const boundarySchema: ConnectSchema = {
  type: "struct",
  optional: false,
  name: "io.debezium.connector.common.TransactionMetadataValue",
  version: 1,
  fields: [
    connectField("status", "string", false),
    connectField("id", "string", false),
    connectField("event_count", "int64", true),
    { ...plain("array"), items: collectionSchema, field: "data_collections" },
    connectField("ts_ms", "int64", false),
  ],
};
