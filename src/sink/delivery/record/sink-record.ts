// The sink's own record in the state store: where it stands, ends of windows that time decided, tables that are copied. The text has
// what changes with the stream. Each table has a part of its own, by recorded-tables.ts. Pure: record-keeper.ts keeps it.

import { type Checkpoint, copiesLogPrefix, type Position } from "../../../change/checkpoint.ts";
import { copyFingerprint, isCopyOf } from "../../../change/copy-fingerprint.ts";
import { formatLsn, type Lsn, parseLsn, zeroLsn } from "../../../change/lsn.ts";
import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import type { ChangedParts, SavedRecord } from "../../../connector/saved-record.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { OpenTransaction } from "../stream/transaction-counts.ts";
import {
  areRangesOf,
  type ChunkedCopies,
  type ChunkedCopy,
  hasOtherKey,
  isReplayMark,
} from "./chunked-copy.ts";
import {
  type CopiedTable,
  type CopiedTables,
  noTables,
  parseTables,
  type RecordedTables,
  readTables,
  type StoredTables,
} from "./recorded-tables.ts";

/** A checkpoint, and, amid a transaction whose rows are counted, what has been counted. */
export interface StreamPoint extends Checkpoint {
  readonly transaction?: OpenTransaction;
}

export interface SinkRecord extends RecordedTables {
  readonly checkpoint: StreamPoint;
  /** The log that all LSNs here are addresses in, as the source names it; null where that is not known. */
  readonly log: string | null;
  /** Where the stream began: rows of first copies carry its version. */
  readonly origin: { readonly lsn: Lsn; readonly version: bigint };
  /** Last changes of windows that time ended and that are not delivered yet, in order. */
  readonly windowEnds: readonly Position[];
  /**
   * The last change that a request may have been cut after. Changes up to it have been received, so they come again at once after a
   * restart. Until then time ends no window. Where requests do not wait for it to be saved, it may be behind. Null: none was sent, or all
   * that is sent is committed with the record.
   */
  readonly reached: Position | null;
  /** Versions that copies took between changes, in the order of the stream. Changes after them have higher ones. */
  readonly versionSteps: readonly VersionStep[];
}

export interface VersionStep {
  /** The change before it. */
  readonly behind: Position;
  readonly version: bigint;
}

interface StoredPosition {
  readonly commit_lsn: string;
  readonly ordinal: number;
}

interface StoredTransaction {
  readonly commit_lsn: string;
  readonly commit_time_us: number;
  readonly xid: number;
  readonly rows: number;
  readonly tables: readonly (readonly [name: string, rows: number])[];
}

interface ForgottenRecord {
  readonly format: 1;
  readonly forgotten: { readonly last_version: string };
}

interface StoredRecord {
  readonly format: 2;
  readonly checkpoint: {
    readonly resume_lsn: string;
    readonly partial: StoredPosition | null;
    readonly last_version: string;
    readonly transaction?: StoredTransaction;
  };
  readonly log?: string;
  readonly origin: { readonly lsn: string; readonly version: string };
  readonly window_ends: readonly StoredPosition[];
  readonly reached: StoredPosition | null;
  readonly version_steps?: readonly (StoredPosition & { readonly version: string })[];
}

/** The format from before tables had parts of their own. */
type WholeRecord = Omit<StoredRecord, "format"> & StoredTables & { readonly format: 1 };

const storePosition = (position: Position): StoredPosition => ({
  commit_lsn: formatLsn(position.commitLsn),
  ordinal: position.ordinal,
});

const readPosition = (stored: StoredPosition): Position => ({
  commitLsn: parseLsn(stored.commit_lsn),
  ordinal: stored.ordinal,
});

const storeTransaction = (transaction: OpenTransaction): StoredTransaction => ({
  commit_lsn: formatLsn(transaction.commitLsn),
  commit_time_us: transaction.commitTimeUs,
  xid: transaction.xid,
  rows: transaction.rows,
  tables: [...transaction.tables],
});

const readTransaction = (stored: StoredTransaction): OpenTransaction => ({
  commitLsn: parseLsn(stored.commit_lsn),
  commitTimeUs: stored.commit_time_us,
  xid: stored.xid,
  rows: stored.rows,
  tables: new Map(stored.tables),
});

const storeStep = ({ behind, version }: VersionStep) => ({
  ...storePosition(behind),
  version: String(version),
});

/** Of a connector that begins. */
export function begunRecord({ resumeLsn, partial, lastVersion, log }: Checkpoint): SinkRecord {
  return {
    checkpoint: { resumeLsn, partial, lastVersion },
    log: log ?? null,
    origin: { lsn: resumeLsn, version: lastVersion },
    windowEnds: [],
    reached: null,
    versionSteps: [],
    ...noTables,
  };
}

/** The record's text, without what it holds of tables. */
export function formatRecord(record: SinkRecord): string {
  const { checkpoint, origin } = record;
  const stored: StoredRecord = {
    format: 2,
    checkpoint: {
      resume_lsn: formatLsn(checkpoint.resumeLsn),
      partial: checkpoint.partial ? storePosition(checkpoint.partial) : null,
      last_version: String(checkpoint.lastVersion),
      ...(checkpoint.transaction ? { transaction: storeTransaction(checkpoint.transaction) } : {}),
    },
    ...(record.log === null ? {} : { log: record.log }),
    origin: { lsn: formatLsn(origin.lsn), version: String(origin.version) },
    window_ends: record.windowEnds.map(storePosition),
    reached: record.reached ? storePosition(record.reached) : null,
    ...(record.versionSteps.length === 0 ? {} : { version_steps: record.versionSteps.map(storeStep) }),
  };
  return JSON.stringify(stored);
}

/** What is left of a record that was forgotten: versions go on above the last one. */
export function formatForgotten(lastVersion: bigint): string {
  const stored: ForgottenRecord = { format: 1, forgotten: { last_version: String(lastVersion) } };
  return JSON.stringify(stored);
}

/** The last version that was given out. */
export function lastVersionOf({ checkpoint, versionSteps }: SinkRecord): bigint {
  const lastStep = versionSteps.at(-1)?.version ?? 0n;
  return lastStep > checkpoint.lastVersion ? lastStep : checkpoint.lastVersion;
}

/** What to save in a record's place to forget it. Null: it is none of these, or cannot be read. */
export function forgotten(
  saved: SavedRecord,
): { readonly text: string; readonly parts: ChangedParts } | null {
  let stored: StoredState;
  try {
    stored = parseRecord(saved);
  } catch {
    return null;
  }
  const lastVersion = stored.kind === "begun" ? lastVersionOf(stored.record) : stored.lastVersion;
  return {
    text: formatForgotten(lastVersion),
    parts: new Map([...saved.parts.keys()].map((name) => [name, null])),
  };
}

export type StoredState =
  | {
      readonly kind: "begun";
      readonly record: SinkRecord;
      /** What it holds of tables is stored in parts; otherwise it is still to be. */
      readonly isParted: boolean;
    }
  | { readonly kind: "forgotten"; readonly lastVersion: bigint };

/** Reads what was formatted. Throws `checkpoint_missing` on anything else: guessing would lose or repeat. */
export function parseRecord({ text, parts }: SavedRecord): StoredState {
  try {
    const stored = JSON.parse(text) as StoredRecord | WholeRecord | ForgottenRecord;
    if (stored.format !== 1 && stored.format !== 2) throw new Error("unknown format");
    if ("forgotten" in stored) {
      return { kind: "forgotten", lastVersion: BigInt(stored.forgotten.last_version) };
    }
    const isParted = stored.format === 2;
    const tables = isParted ? parseTables(parts) : readTables(stored);
    return { kind: "begun", record: { ...readPlace(stored), ...tables }, isParted };
  } catch (cause) {
    const text = "the sink's record in the state store cannot be read";
    throw new MillraceError("checkpoint_missing", text, { cause });
  }
}

function readPlace(stored: Omit<StoredRecord, "format">): Omit<SinkRecord, "copied" | "chunked"> {
  return {
    checkpoint: {
      resumeLsn: parseLsn(stored.checkpoint.resume_lsn),
      partial: stored.checkpoint.partial ? readPosition(stored.checkpoint.partial) : null,
      lastVersion: BigInt(stored.checkpoint.last_version),
      ...(stored.checkpoint.transaction
        ? { transaction: readTransaction(stored.checkpoint.transaction) }
        : {}),
    },
    log: stored.log ?? null,
    origin: { lsn: parseLsn(stored.origin.lsn), version: BigInt(stored.origin.version) },
    windowEnds: stored.window_ends.map(readPosition),
    reached: stored.reached ? readPosition(stored.reached) : null,
    versionSteps: (stored.version_steps ?? []).map(({ version, ...behind }) => ({
      behind: readPosition(behind),
      version: BigInt(version),
    })),
  };
}

/**
 * `copied` as it stands for `tables`: what is no longer selected, not a copy of what is selected by now, or has incomplete rows that cannot be
 * named any more, is marked as missed. Itself when nothing changes.
 */
export function copiesOf(
  copied: CopiedTables,
  chunked: ChunkedCopies,
  tables: readonly TableShape[],
): CopiedTables {
  const byName = new Map(tables.map((table) => [qualifiedName(table.relation), table]));
  const changed = [...copied].flatMap(([name, copy]): [string, CopiedTable][] => {
    if (copy.lsn === zeroLsn) return [];
    const table = byName.get(name);
    const parts = chunked.get(name);
    const isLost = table && parts?.phase === "joined" && hasOtherKey(parts, table);
    if (!table || isLost || !isCopyOf(copy.identity, table)) return [[name, { ...copy, lsn: zeroLsn }]];
    const identity = copyFingerprint(table);
    return identity === copy.identity ? [] : [[name, { ...copy, identity }]];
  });
  return changed.length === 0 ? copied : new Map([...copied, ...changed]);
}

/** `copied`, with those of `tables` that are not known marked as missed. Itself when nothing changes. */
export function withMissed(copied: CopiedTables, tables: readonly TableShape[]): CopiedTables {
  const unknown = tables.filter(({ relation }) => !copied.has(qualifiedName(relation)));
  if (unknown.length === 0) return copied;
  const missed = unknown.map((table): [string, CopiedTable] => [
    qualifiedName(table.relation),
    { identity: copyFingerprint(table), lsn: zeroLsn },
  ]);
  return new Map([...copied, ...missed]);
}

export function holdsCopy(copied: CopiedTables, name: string): boolean {
  return (copied.get(name)?.lsn ?? zeroLsn) > 0n;
}

/**
 * `chunked` as it stands for `tables`: a copy counts no more when its table is no longer selected, or another one by now, or has
 * missed changes. A table whose rows are sent again need not have a copy. Itself when nothing changes.
 */
export function chunkedOf(
  chunked: ChunkedCopies,
  copied: CopiedTables,
  tables: readonly TableShape[],
): ChunkedCopies {
  const byName = new Map(tables.map((table) => [qualifiedName(table.relation), table]));
  const isKept = (name: string, { phase, mark }: ChunkedCopy) => {
    const table = byName.get(name);
    if (!table || table.coverage?.isUnpublished === true) return false;
    const isCopied = holdsCopy(copied, name);
    if (phase === "again") return (isCopied || isReplayMark(mark)) && areRangesOf(mark, table);
    return phase === "joined" ? isCopied : areRangesOf(mark, table);
  };
  const kept = [...chunked].filter(([name, copy]) => isKept(name, copy));
  return kept.length === chunked.size ? chunked : new Map(kept);
}

/** Whether a stream brings what lies between two copies. */
export function hasStream({ log }: Pick<SinkRecord, "log">): boolean {
  return log?.startsWith(copiesLogPrefix) !== true;
}

/** Whether `a` comes before `b` in the stream. */
export function isBefore(a: Position, b: Position): boolean {
  return a.commitLsn === b.commitLsn ? a.ordinal < b.ordinal : a.commitLsn < b.commitLsn;
}

/** `ends` with `end` in its place: a flush during a replay ends a window before ends that are still ahead. */
export function withEnd(ends: readonly Position[], end: Position): Position[] {
  const before = ends.filter((each) => isBefore(each, end));
  const behind = ends.filter((each) => isBefore(end, each));
  return [...before, end, ...behind];
}
