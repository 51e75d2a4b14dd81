// Rows of which no message can be sent are parked, and so is what comes later of their keys. They are in the state before the transaction
// that would have held them is committed. What comes again after a restart is known by its id, which is a change's Idempotency-Key. A row of a
// copy that is read again, as of a later point, takes the place of what was parked of it.

import { formatLsn } from "../../../change/lsn.ts";
import { neverAborted } from "../../../concurrency/until-aborted.ts";
import type { AttemptNote, ParkedCause, ParkedEntry, ParkedMessage } from "../../../connector/parking.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { ParkingSettings } from "../../delivery/delivery-settings.ts";
import { ParkedEntries, type ParkedEntriesOptions } from "../../delivery/parking/parked-entries.ts";
import type { RetryView } from "../../delivery/parking/parking.ts";
import { ParkingSpace } from "../../delivery/parking/parking-space.ts";
import type { ParkingStore } from "../../delivery/parking/parking-store.ts";
import { pointOf } from "../../delivery/parking/row-place.ts";
import type { PlannedRow } from "../../delivery/stream/request-plan.ts";
import type { KafkaTable } from "../message-writer.ts";
import type { RefusedRecords } from "./refused-records.ts";
import { nameOfParked, parkedId, rowName } from "./row-name.ts";
import { storeRow } from "./stored-row.ts";

export interface KafkaParkingOptions extends ParkedEntriesOptions {
  readonly connectorId: string;
  readonly store: ParkingStore;
  readonly settings: ParkingSettings;
  readonly refused: Pick<RefusedRecords, "isEmpty" | "forget">;
  readonly nowMs: () => number;
  /** The state does not take them. */
  readonly failed: (error: unknown) => void;
}

/** What is parked with one statement. */
const mostTogether = 100;
/** What may wait for the state. */
const mostWaitingBytes = 8 * 1024 * 1024;
const refusals: ReadonlySet<string> = new Set([
  "kafka_message_too_large",
  "sink_schema_rejected",
  "kafka_key_unwritable",
]);

/** Whether the error is the row's, or its table's: others can be sent. */
export function isRefusal(error: unknown): error is MillraceError {
  return error instanceof MillraceError && refusals.has(error.code);
}

interface Waiting {
  readonly id: string;
  /** Of the message that it takes the place of. */
  readonly replaces: string | null;
  /** Null: brokers have refused nothing. */
  readonly name: string | null;
  readonly message: Promise<ParkedMessage>;
  readonly bytes: number;
}

export class KafkaParking {
  readonly entries: ParkedEntries;
  readonly #space: ParkingSpace;
  /** Set where both are made. */
  retry: RetryView | null = null;
  /** Rows of copies that are parked, by name: the last ones. */
  readonly #ofCopies = new Map<string, ParkedEntry>();
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  /** How many were parked, and how many of them are in the state. */
  #parked = 0;
  #stored = 0;
  #isStoring = false;
  /** Why the state takes none. */
  #failure: { readonly error: unknown } | null = null;
  #waiters: { readonly count: number; readonly settled: PromiseWithResolvers<void> }[] = [];

  constructor(private readonly options: KafkaParkingOptions) {
    const left = (entry: ParkedEntry) => {
      const name = nameOfParked(entry);
      if (this.#ofCopies.get(name) === entry) this.#ofCopies.delete(name);
    };
    this.entries = new ParkedEntries({ ...options, left });
    this.#space = new ParkingSpace(options.connectorId, options.settings, this.entries.parked);
  }

  /** What earlier sessions have parked. */
  async load(): Promise<void> {
    await this.entries.load(({ entry, isSettled }) => {
      if (entry.isOfCopy && !isSettled) this.#ofCopies.set(nameOfParked(entry), entry);
    });
  }

  /** Whether the row is not to be sent now: it is parked already, or waits behind one that is, and is parked by this call. */
  takes(table: KafkaTable, row: PlannedRow): boolean {
    const { parked, settled, isEmpty } = this.entries;
    if (isEmpty) return false;
    const { schema, name } = table.relation;
    const hashes = hashesOf(row);
    const isClear = (index: typeof parked) =>
      index.lacks(schema, name) || (hashes.length > 0 && index.isClearOf(schema, name, hashes));
    if (isClear(parked) && isClear(settled)) return false;
    const id = parkedId(rowName(table, row), row);
    if (this.entries.has(id)) {
      if (this.entries.cameAgain(id)) this.retry?.reached();
      return true;
    }
    const earlier = this.#earlier(id, row);
    if (earlier === null && parked.ahead(schema, name, { hashes, ...pointOf(row) }) === null) return false;
    this.#park(table, row, "behind", [], earlier);
    return true;
  }

  /** The same row of a copy, as of another point. Null: none is parked, or it is being sent. */
  #earlier(id: string, { context: { snapshot } }: PlannedRow): ParkedEntry | null {
    const earlier = snapshot ? this.lastOfCopies(id) : null;
    return earlier && !this.retry?.isUnderWay(earlier) ? earlier : null;
  }

  /** What is parked of the row of a copy that has this id as of some point. Null: nothing is. */
  lastOfCopies(id: string): ParkedEntry | null {
    return this.#ofCopies.get(nameOfParked({ id, isOfCopy: true })) ?? null;
  }

  /** No message of the row can be sent. Throws `error` where nothing is parked, and `parking_full`. */
  refuse(table: KafkaTable, row: PlannedRow, error: MillraceError): void {
    const { settings, nowMs } = this.options;
    if (!settings.parksRefused) throw error;
    const note = { at: new Date(nowMs()).toISOString(), error: error.message };
    this.#park(table, row, "refused", [note], null);
  }

  get hasCapacity(): boolean {
    return this.#waitingBytes < mostWaitingBytes && !this.#awaitsSpace;
  }

  /** Resolves when the state has what was parked, and messages that are sent again have made space for it. Throws what the state throws. */
  async untilCapacity(): Promise<void> {
    if (this.#waitingBytes >= mostWaitingBytes) await this.stored();
    // The end of the retry ends the wait.
    while (this.#awaitsSpace) await this.retry?.change(neverAborted);
  }

  /** More is parked than may be. Messages that wait for the stream make no space while it waits. */
  get #awaitsSpace(): boolean {
    const { retry } = this;
    if (!retry?.isActive || retry.isOver || retry.awaitsStream) return false;
    return !this.#space.isThere;
  }

  /** Null: all that was parked is in the state. Otherwise resolves when that is, whatever is parked from now on. */
  stored(): Promise<void> | null {
    if (this.#stored === this.#parked) return null;
    const settled = Promise.withResolvers<void>();
    if (this.#failure) settled.reject(this.#failure.error);
    else this.#waiters.push({ count: this.#parked, settled });
    return settled.promise;
  }

  #park(
    table: KafkaTable,
    row: PlannedRow,
    cause: ParkedCause,
    attempts: readonly AttemptNote[],
    replaced: ParkedEntry | null,
  ): void {
    const { refused } = this.options;
    const { schema, name } = table.relation;
    const body = storeRow(table.relation, row);
    const { parked } = this.entries;
    const rowsName = rowName(table, row);
    const id = parkedId(rowsName, row);
    if (replaced) this.entries.drop(replaced);
    const request = { schema, table: name, idempotencyKey: id, rows: 1, body };
    const { retry } = this;
    // While messages are sent again there will be space, for which the next row waits; but not where these wait for the stream.
    const willHaveSpace = retry?.isActive && !retry.awaitsStream;
    const mayExceed = () => retry?.awaitsStream && this.#space.exceed([request]);
    if (!willHaveSpace && !this.#space.for([request]) && !mayExceed()) throw this.#space.full(request);
    const entry = entryOf(table, row, id, body.length);
    parked.add(entry);
    if (entry.isOfCopy) this.#ofCopies.set(rowsName, entry);
    const replaces = replaced?.id ?? null;
    const versions = [row.context.version];
    const facts = { keys: keysOf(table, row), rows: 1, versions, cause, attempts, mayHaveArrived: false };
    const { commitTimeUs } = row.moment;
    const position = row.position();
    const firstLsn = position ? formatLsn(position.commitLsn) : null;
    const message = Bun.zstdCompress(body).then((compressed) => ({
      ...entry,
      ...facts,
      replaces,
      firstLsn,
      committedAtMs: Math.floor(commitTimeUs / 1_000),
      body: new Uint8Array(compressed),
    }));
    const refusedName = refused.isEmpty ? null : rowsName;
    this.#waiting.push({ id, replaces, name: refusedName, message, bytes: body.length });
    this.#waitingBytes += body.length;
    this.#parked++;
    if (!this.#isStoring) void this.#store();
    this.options.changed();
  }

  /** Ends when nothing waits. A failure ends the session. */
  async #store(): Promise<void> {
    const { store, refused } = this.options;
    this.#isStoring = true;
    try {
      while (this.#waiting.length > 0) {
        const some = this.#waiting.splice(0, countTogether(this.#waiting));
        await store.park(await Promise.all(some.map(({ message }) => message)));
        await refused.forget(some.flatMap(({ name }) => name ?? []));
        for (const { bytes } of some) this.#waitingBytes -= bytes;
        this.#stored += some.length;
        const isThere = ({ count }: { readonly count: number }) => count <= this.#stored;
        for (const { settled } of this.#waiters.filter(isThere)) settled.resolve();
        this.#waiters = this.#waiters.filter((waiter) => !isThere(waiter));
      }
      this.#isStoring = false;
    } catch (error) {
      this.#failure = { error };
      this.options.failed(error);
      for (const { settled } of this.#waiters.splice(0)) settled.reject(error);
    }
  }
}

/** How many of them one statement parks. It does not see what it parks itself, so what takes the place of that goes with the next one. */
function countTogether(waiting: readonly Waiting[]): number {
  const ids = new Set<string | null>();
  for (const { id, replaces } of waiting) {
    if (ids.size === mostTogether || ids.has(replaces)) break;
    ids.add(id);
  }
  return ids.size;
}

/** None: it may be any row of the table. */
function hashesOf({ identity, touches }: PlannedRow): readonly number[] {
  return identity === null ? [] : touches;
}

function entryOf({ relation }: KafkaTable, row: PlannedRow, id: string, bytes: number): ParkedEntry {
  const hashes = [...new Set(hashesOf(row))];
  return {
    id,
    schema: relation.schema,
    table: relation.name,
    hashes,
    bytes,
    places: [pointOf(row).place],
    firstRows: null,
    isWide: hashes.length === 0,
    isOfCopy: row.context.snapshot,
  };
}

/** Types whose texts are JSON's numbers: int8, int2, int4. */
const integers: ReadonlySet<number> = new Set([20, 21, 23]);

/** JSON: a list of one object, or of none. A number with more digits than JavaScript keeps is a text. */
function keysOf({ relation: { columns, key } }: KafkaTable, { arena, identity }: PlannedRow): string {
  if (key.length === 0 || identity === null) return "[]";
  const members = key.map((c) => {
    const { name, typeOid } = columns[c]!;
    const start = identity.starts[c]!;
    const text = new TextDecoder().decode(arena.subarray(start, start + Math.max(0, identity.lengths[c]!)));
    const isNumber = integers.has(typeOid) && Number.isSafeInteger(Number(text)) && text !== "";
    return `${JSON.stringify(name)}:${isNumber ? text : JSON.stringify(text)}`;
  });
  return `[{${members.join(",")}}]`;
}
