// Divides the rows of a request by what is parked: those that can go, those that wait behind a parked message, and those that are parked
// themselves, which came again. Pure.

import type { ParkedIndex, RowPlace } from "./parked-index.ts";
import { placesOf, type RowsRequest } from "./request-parts.ts";

export interface Division {
  /** Rows that wait behind nothing. */
  readonly free: readonly number[];
  /** Rows that wait, those of one key together as far as no parked message stands between them. Each list is a part. */
  readonly behind: readonly (readonly number[])[];
  readonly rows: number;
}

/** `settled`: messages that were parked and are not any more. */
export function divideRequest(request: RowsRequest, parked: ParkedIndex, settled: ParkedIndex): Division {
  const { schema, table } = request;
  const places = placesOf(request);
  const free: number[] = [];
  const waiting: number[] = [];
  const waitingHashes = new Set<number>();
  let isWide = false;
  // A row of the same request may come before it. A change of a key binds two keys: what comes later of either waits.
  const sharesKey = ({ hashes }: RowPlace) =>
    isWide || (waiting.length > 0 && (hashes.length === 0 || hashes.some((hash) => waitingHashes.has(hash))));
  places.forEach((place, row) => {
    if (parked.holds(schema, table, place) || settled.holds(schema, table, place)) return;
    if (!parked.ahead(schema, table, place) && !sharesKey(place)) {
      free.push(row);
      return;
    }
    waiting.push(row);
    isWide ||= place.hashes.length === 0;
    for (const hash of place.hashes) waitingHashes.add(hash);
  });
  const groups = isWide ? [waiting] : byKey(places, waiting);
  const areApart = (first: number, row: number) =>
    parked.crosses(schema, table, places[first]!, places[row]!);
  return { free, behind: groups.flatMap((group) => split(group, areApart)), rows: places.length };
}

/** All of its rows wait, and they stay together. */
export function waitsAsOne(division: Division | null): boolean {
  return division !== null && division.free.length === 0 && division.behind[0]?.length === division.rows;
}

/** `areApart`: the first row of a part, and one that cannot be in it. */
function split(rows: readonly number[], areApart: (first: number, row: number) => boolean): number[][] {
  const parts: number[][] = [];
  for (const row of rows) {
    const part = parts.at(-1);
    if (part && !areApart(part[0]!, row)) part.push(row);
    else parts.push([row]);
  }
  return parts;
}

/** Whether a part could have all of the request's rows. */
export function isUncrossed(request: RowsRequest, parked: ParkedIndex): boolean {
  const places = placesOf(request);
  return !places.some((place) => parked.crosses(request.schema, request.table, places[0]!, place));
}

/** Rows that share a key, directly or by others. */
function byKey(places: readonly RowPlace[], rows: readonly number[]): number[][] {
  const parents = new Map<number, number>();
  const rootOf = (hash: number): number => {
    let root = hash;
    for (let next = parents.get(root); next !== undefined && next !== root; next = parents.get(root))
      root = next;
    parents.set(hash, root);
    return root;
  };
  for (const row of rows) {
    const [first = 0, ...others] = places[row]!.hashes;
    for (const hash of others) parents.set(rootOf(hash), rootOf(first));
  }
  const groups = Map.groupBy(rows, (row) => rootOf(places[row]!.hashes[0]!));
  return [...groups.values()];
}
