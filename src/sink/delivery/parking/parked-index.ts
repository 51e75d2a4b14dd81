// Which messages are parked, and which rows wait behind which. Messages that share a key are a chain, in their order; one without a key stands
// between all others of its table. It holds hashes, and no row. Pure.

import type { ParkedEntry } from "../../../connector/parking.ts";
import { tableKey } from "../table-key.ts";
import { comparePlace, type RowPoint } from "./row-place.ts";

/** A row, as far as its order matters. No hash: it may be any row of the table. */
export interface RowPlace extends RowPoint {
  readonly hashes: readonly number[];
}

interface Chain {
  /** In the order of their places: a row that comes again may be parked after a later one. */
  readonly entries: Place[];
  /** The last place in it, and the last version that stands for one. */
  most: bigint;
  mostVersion: number;
  /** No message has a row from before one of an earlier message: a place is found by halving. */
  isRising: boolean;
}

interface Place {
  readonly entry: ParkedEntry;
  readonly order: number;
  /** The place of its first row in the chain. */
  readonly first: bigint;
}

class ParkedTable {
  readonly places = new Map<string, Place>();
  readonly inOrder: Place[] = [];
  readonly chains = new Map<number, Chain>();
  readonly wide = emptyChain();
}

export class ParkedIndex {
  readonly #tables = new Map<string, ParkedTable>();
  readonly #entries = new Map<string, ParkedEntry>();
  #order = 0;
  #bytes = 0;

  get size(): number {
    return this.#entries.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(id: string): ParkedEntry | undefined {
    return this.#entries.get(id);
  }

  all(): Iterable<ParkedEntry> {
    return this.#entries.values();
  }

  /** Between those that are there, by its place. */
  add(entry: ParkedEntry): void {
    if (this.#entries.has(entry.id)) return;
    this.#entries.set(entry.id, entry);
    this.#bytes += entry.bytes;
    const name = tableKey(entry.schema, entry.table);
    const table = this.#tables.get(name) ?? new ParkedTable();
    this.#tables.set(name, table);
    const place = { entry, order: this.#order++, first: entry.places[0]! };
    table.places.set(entry.id, place);
    insert(table.inOrder, place);
    if (entry.isWide) join(table.wide, place);
    else for (const [hash, inChain] of chainPlaces(place)) join(chainOf(table, hash), inChain);
  }

  remove(entry: ParkedEntry): void {
    if (!this.#entries.delete(entry.id)) return;
    this.#bytes -= entry.bytes;
    const name = tableKey(entry.schema, entry.table);
    const table = this.#tables.get(name)!;
    const place = table.places.get(entry.id)!;
    table.places.delete(entry.id);
    drop(table.inOrder, place);
    if (entry.isWide) drop(table.wide.entries, place);
    for (const [hash, inChain] of entry.isWide ? [] : chainPlaces(place)) {
      const chain = table.chains.get(hash);
      if (chain && drop(chain.entries, inChain)) table.chains.delete(hash);
    }
    if (table.places.size === 0) this.#tables.delete(name);
  }

  /** Whether nothing of this table is here. */
  lacks(schema: string, table: string): boolean {
    return !this.#tables.has(tableKey(schema, table));
  }

  /** Whether nothing here has to do with rows that have these hashes, each one at least. */
  isClearOf(schema: string, table: string, hashes: readonly number[]): boolean {
    const found = this.#tables.get(tableKey(schema, table));
    if (!found) return true;
    if (found.wide.entries.length > 0) return false;
    // Every row of the table comes by here while anything of it is parked.
    for (let i = 0; i < hashes.length; i++) if (found.chains.has(hashes[i]!)) return false;
    return true;
  }

  /** The last message of each chain that a row with these hashes joins. No hash: of all chains of the table. */
  lastOf(schema: string, table: string, hashes: readonly number[]): readonly ParkedEntry[] {
    const found = this.#tables.get(tableKey(schema, table));
    if (!found) return [];
    const chains = hashes.length === 0 ? found.chains.values() : hashes.map((hash) => found.chains.get(hash));
    return [found.wide, ...chains].flatMap((chain) => chain?.entries.at(-1)?.entry ?? []);
  }

  /** The first message that a row waits behind; null: it need not wait. One that came before the message does not. */
  ahead(schema: string, table: string, row: RowPlace): ParkedEntry | null {
    const found = this.#tables.get(tableKey(schema, table));
    if (!found) return null;
    const isAhead = (place: Place | undefined) => place !== undefined && comparePlace(place.first, row) < 0;
    if (row.hashes.length === 0) {
      const [first] = found.inOrder;
      return isAhead(first) ? first!.entry : null;
    }
    if (isAhead(found.wide.entries[0])) return found.wide.entries[0]!.entry;
    for (const hash of row.hashes) {
      const head = found.chains.get(hash)?.entries[0];
      if (isAhead(head)) return head!.entry;
    }
    return null;
  }

  /**
   * Whether a message that a row waits behind has rows behind `from` too, an earlier row. Where requests are cut in another way than they were, it
   * may: then the two rows cannot be in one message.
   */
  crosses(schema: string, table: string, from: RowPoint, row: RowPlace): boolean {
    const found = this.#tables.get(tableKey(schema, table));
    if (!found) return false;
    const chains = [found.wide, ...row.hashes.map((hash) => found.chains.get(hash))];
    return chains.some((chain) => chain !== undefined && reachesPast(chain, from, row));
  }

  /**
   * Whether the row itself is here. Changes of the stream have places of their own. The rows of a copy share one, which says nothing: two of
   * them may share a hash by chance, or have none.
   */
  holds(schema: string, table: string, row: RowPlace): boolean {
    const found = this.#tables.get(tableKey(schema, table));
    if (!found) return false;
    const chains = [found.wide, ...row.hashes.map((hash) => found.chains.get(hash))];
    return chains.some(
      (chain) =>
        chain !== undefined &&
        (row.place <= chain.most || row.version <= chain.mostVersion) &&
        mayHave(chain, row).some(({ entry }) => !entry.isOfCopy && hasRow(entry, row)),
    );
  }

  /** Messages that wait with this one at most: what a retry of them takes. */
  waiting(entry: ParkedEntry): number {
    const table = this.#tables.get(tableKey(entry.schema, entry.table));
    if (!table) return 0;
    if (entry.isWide) return table.places.size;
    return entry.hashes.reduce((sum, hash) => sum + (table.chains.get(hash)?.entries.length ?? 0), 0);
  }

  /** Whether no other message has to go before it. */
  isFirst(entry: ParkedEntry): boolean {
    return this.#before(entry).length === 0;
  }

  /** The messages that have to go first, before this one can: itself where it is the first. */
  firstOfKeys(entry: ParkedEntry): readonly ParkedEntry[] {
    const found = new Set<ParkedEntry>();
    const seen = new Set<ParkedEntry>();
    const open = [entry];
    for (let next = open.pop(); next; next = open.pop()) {
      if (seen.has(next)) continue;
      seen.add(next);
      const before = this.#before(next);
      if (before.length === 0) found.add(next);
      open.push(...before);
    }
    return [...found];
  }

  /** Of those that waited behind a message that was removed: the ones that can go now. */
  freed(removed: ParkedEntry): readonly ParkedEntry[] {
    const table = this.#tables.get(tableKey(removed.schema, removed.table));
    if (!table) return [];
    const next = new Set<ParkedEntry>();
    if (removed.isWide) {
      for (const { entry } of table.inOrder) {
        next.add(entry);
        if (entry.isWide) break;
      }
    } else {
      for (const hash of removed.hashes) {
        const head = table.chains.get(hash)?.entries[0];
        if (head) next.add(head.entry);
      }
      const wide = table.wide.entries[0];
      if (wide) next.add(wide.entry);
    }
    return [...next].filter((entry) => this.isFirst(entry));
  }

  /** The first message of each chain that it is in, and the message without a key that is before it. */
  #before(entry: ParkedEntry): ParkedEntry[] {
    const table = this.#tables.get(tableKey(entry.schema, entry.table));
    const place = table?.places.get(entry.id);
    if (!table || !place) return [];
    const isBefore = (other: Place | undefined, own = place): other is Place =>
      other !== undefined && goesBefore(other, own);
    const wide = table.wide.entries[0];
    const before = isBefore(wide) ? [wide.entry] : [];
    if (entry.isWide) {
      // One without a key waits for all. An earlier one without a key has waited for those before it.
      if (before.length > 0) return before;
      for (const other of table.inOrder) {
        if (!isBefore(other)) break;
        before.push(other.entry);
      }
      return before;
    }
    for (const [hash, inChain] of chainPlaces(place)) {
      const head = table.chains.get(hash)?.entries[0];
      if (isBefore(head, inChain)) before.push(head.entry);
    }
    return before;
  }
}

/** Rows between the first and the last one may have gone another way. */
function hasRow({ places }: ParkedEntry, row: RowPoint): boolean {
  const at = firstOf(places, (place) => comparePlace(place, row) >= 0);
  return at < places.length && comparePlace(places[at]!, row) === 0;
}

/** Whether one of its messages that are before the row has rows behind `from`. */
function reachesPast({ entries, isRising }: Chain, from: RowPoint, row: RowPoint): boolean {
  const ahead = firstOf(entries, ({ first }) => comparePlace(first, row) >= 0);
  const reaches = ({ entry }: Place) => comparePlace(entry.places.at(-1)!, from) > 0;
  return isRising ? ahead > 0 && reaches(entries[ahead - 1]!) : entries.slice(0, ahead).some(reaches);
}

/** Those of the chain that the row lies within; where these are not told by their order, all. */
function mayHave({ entries, isRising }: Chain, { place }: RowPoint): readonly Place[] {
  if (!isRising) return entries;
  const from = firstOf(entries, ({ entry }) => entry.places.at(-1)! >= place);
  return entries.slice(
    from,
    firstOf(entries, ({ entry }) => entry.places[0]! > place),
  );
}

/** The index of the first one that it is so of, as it is of all behind that. */
function firstOf<T>(list: readonly T[], isSo: (one: T) => boolean): number {
  let [from, to] = [0, list.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (isSo(list[middle]!)) to = middle;
    else from = middle + 1;
  }
  return from;
}

function emptyChain(): Chain {
  return { entries: [], most: 0n, mostVersion: 0, isRising: true };
}

function chainOf(table: ParkedTable, hash: number): Chain {
  const chain = table.chains.get(hash) ?? emptyChain();
  table.chains.set(hash, chain);
  return chain;
}

/** Where the message stands in the chain of each of its keys. */
function chainPlaces(place: Place): readonly (readonly [hash: number, place: Place])[] {
  const { hashes, firstRows, places } = place.entry;
  return hashes.map((hash, i) => [hash, firstRows ? { ...place, first: places[firstRows[i]!]! } : place]);
}

/** What an earlier version of millrace has parked has no place, which is below zero: it stands where it was parked. */
function goesBefore(one: Place, other: Place): boolean {
  const areKnown = one.first >= 0n && other.first >= 0n;
  return areKnown && one.first !== other.first ? one.first < other.first : one.order < other.order;
}

/** Returns its index. */
function insert(places: Place[], place: Place): number {
  const at = firstOf(places, (other) => goesBefore(place, other));
  if (at === places.length) places.push(place);
  else places.splice(at, 0, place);
  return at;
}

function join(chain: Chain, place: Place): void {
  const { places } = place.entry;
  const [first, last] = [places[0]!, places.at(-1)!];
  const at = insert(chain.entries, place);
  const [before, after] = [chain.entries[at - 1], chain.entries[at + 1]];
  const isBehind = before === undefined || first >= before.entry.places.at(-1)!;
  const isAhead = after === undefined || last <= after.entry.places[0]!;
  chain.isRising &&= first >= 0n && isBehind && isAhead;
  if (last > chain.most) chain.most = last;
  chain.mostVersion = Math.max(chain.mostVersion, -Number(last));
}

/** Returns whether nothing is left. */
function drop(places: Place[], place: Place): boolean {
  const at = firstOf(places, (other) => !goesBefore(other, place));
  if (places[at]?.order !== place.order) return places.length === 0;
  if (at === 0) places.shift();
  else places.splice(at, 1);
  return places.length === 0;
}
