// Which partition a key belongs to: that of Apache's own client, so that consumers and other producers agree. It is the murmur2 hash
// of the key's bytes, without its sign, modulo the number of partitions.
// https://github.com/apache/kafka/blob/trunk/clients/src/main/java/org/apache/kafka/common/utils/Utils.java

const seed = 0x9747b28c | 0;
const multiplier = 0x5bd1e995 | 0;

/** `bytes[0, length)` is the key. */
export function partitionOf(bytes: Uint8Array, length: number, partitions: number): number {
  return partitions === 1 ? 0 : (murmur2(bytes, length) & 0x7fffffff) % partitions;
}

export function murmur2(bytes: Uint8Array, length: number): number {
  let hash = seed ^ length;
  const whole = length & ~3;
  for (let i = 0; i < whole; i += 4) {
    let word = bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24);
    word = Math.imul(word, multiplier);
    word ^= word >>> 24;
    hash = Math.imul(hash, multiplier) ^ Math.imul(word, multiplier);
  }
  const rest = length - whole;
  if (rest > 2) hash ^= bytes[whole + 2]! << 16;
  if (rest > 1) hash ^= bytes[whole + 1]! << 8;
  if (rest > 0) hash = Math.imul(hash ^ bytes[whole]!, multiplier);
  hash = Math.imul(hash ^ (hash >>> 13), multiplier);
  return hash ^ (hash >>> 15);
}
