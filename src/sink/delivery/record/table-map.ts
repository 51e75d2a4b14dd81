// A map by table that is never changed: `withEntry` makes another one, which shares most of it. The record of thousands of tables changes
// with each of their copies, and would otherwise be copied, and compared, as a whole each time. Pure.

const bucketCount = 256;

type Buckets<V> = readonly ReadonlyMap<string, V>[];

const noBuckets: Buckets<never> = Array.from({ length: bucketCount }, () => new Map<string, never>());

class TableMap<V> implements ReadonlyMap<string, V> {
  constructor(
    readonly buckets: Buckets<V>,
    readonly size: number,
  ) {}

  get(name: string): V | undefined {
    return this.buckets[bucketOf(name)]!.get(name);
  }

  has(name: string): boolean {
    return this.buckets[bucketOf(name)]!.has(name);
  }

  entries(): MapIterator<[string, V]> {
    return Iterator.from(this.buckets).flatMap((bucket) => bucket.entries());
  }

  keys(): MapIterator<string> {
    return Iterator.from(this.buckets).flatMap((bucket) => bucket.keys());
  }

  values(): MapIterator<V> {
    return Iterator.from(this.buckets).flatMap((bucket) => bucket.values());
  }

  [Symbol.iterator](): MapIterator<[string, V]> {
    return this.entries();
  }

  forEach(each: (value: V, name: string, map: ReadonlyMap<string, V>) => void): void {
    for (const bucket of this.buckets) for (const [name, value] of bucket) each(value, name, this);
  }
}

/** `map` with this value of `name`; undefined: without it. */
export function withEntry<V>(
  map: ReadonlyMap<string, V>,
  name: string,
  value: V | undefined,
): ReadonlyMap<string, V> {
  const { buckets, size } = shared(map);
  const at = bucketOf(name);
  const bucket = new Map(buckets[at]);
  if (value === undefined) bucket.delete(name);
  else bucket.set(name, value);
  return new TableMap(buckets.with(at, bucket), size + bucket.size - buckets[at]!.size);
}

/** Names whose values differ. What the two share is not looked at. */
export function differingNames<V>(
  before: ReadonlyMap<string, V>,
  now: ReadonlyMap<string, V>,
): readonly string[] {
  if (before === now) return [];
  const old = shared(before).buckets;
  return shared(now).buckets.flatMap((bucket, at) => differingIn(old[at]!, bucket));
}

function differingIn<V>(before: ReadonlyMap<string, V>, now: ReadonlyMap<string, V>): readonly string[] {
  if (before === now) return [];
  const names: string[] = [];
  for (const [name, value] of now) if (before.get(name) !== value) names.push(name);
  for (const name of before.keys()) if (!now.has(name)) names.push(name);
  return names;
}

function shared<V>(map: ReadonlyMap<string, V>): TableMap<V> {
  if (map instanceof TableMap) return map;
  if (map.size === 0) return new TableMap<V>(noBuckets, 0);
  const buckets = Array.from({ length: bucketCount }, () => new Map<string, V>());
  for (const [name, value] of map) buckets[bucketOf(name)]!.set(name, value);
  return new TableMap(buckets, map.size);
}

function bucketOf(name: string): number {
  let hash = 0;
  for (let i = 0; i < name.length; i++) hash = (Math.imul(hash, 31) + name.charCodeAt(i)) | 0;
  return (hash ^ (hash >>> 8)) & (bucketCount - 1);
}
