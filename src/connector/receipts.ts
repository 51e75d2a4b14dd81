// Receipts: what became of requests, or of messages, to a receiver. Here is what a run and the state tell each other of them. What is in a
// batch is known to the delivery alone; explanation.ts has what the API shows.

/** Receipts that are stored together. A later one of the same id has all that the earlier one had, and more. */
export interface ReceiptBatch {
  /** UUIDv7: batches sort by time. */
  readonly id: string;
  /** When it was first saved, in ms since 1970-01-01 UTC. */
  readonly beganAtMs: number;
  readonly requests: number;
  readonly body: Uint8Array;
  /** Tells which keys cannot be in it. */
  readonly filter: Uint8Array;
}

/** A batch has receipts of so long at most. */
export const batchSpanMs = 5 * 60_000;

/** By id. */
export type ReceiptBatches = ReadonlyMap<string, ReceiptBatch>;

export const noReceipts: ReceiptBatches = new Map();

/** A table that a run carries, and what its rows' keys are. */
export interface ReceiptTable {
  readonly schema: string;
  readonly name: string;
  /** In the key's order; empty: it has none. */
  readonly key: readonly KeyColumn[];
}

export interface KeyColumn {
  readonly name: string;
  /** OID of the type at the source; of a domain, the type under it. */
  readonly typeOid: number;
  /** For people. */
  readonly typeName: string;
}

/** What a run asks of the receipts of its connector, beside what it saves with its record. */
export type ReceiptCall =
  /** The tables that it carries. */
  | { readonly kind: "tables"; readonly tables: readonly ReceiptTable[] }
  /** What is older, or beyond so many bytes, goes; the oldest first. */
  | { readonly kind: "prune"; readonly maxAgeMs: number; readonly maxBytes: number };

/** A request that is not delivered yet, as the run sees it. */
export interface OpenRequest {
  readonly idempotency_key: string | null;
  readonly state: "Waiting" | "Sending" | "Retrying";
  readonly attempts: number;
  /** RFC 3339. */
  readonly first_at?: string;
  readonly last_at?: string;
  /** Of the last answer. */
  readonly status?: number;
  /** Why there was no answer. */
  readonly error?: string;
  readonly last_change?: { readonly lsn: string; readonly committed_at: string; readonly op: string };
}

/** A row that somebody asks about. */
export interface RowQuestion {
  readonly schema: string;
  readonly name: string;
  /** Texts of its key, as the source sends them, in the order of the key. */
  readonly key: readonly string[];
}
