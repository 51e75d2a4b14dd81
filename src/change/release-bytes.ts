// Gives memory back at once. The garbage collector would, but in its own time: behind the few small objects that it sees
// lies a hundred megabytes, and the next value would stand beside the last ones.

/** Smaller ones are left to the collector: they are many, and cost little. */
const leastBytes = 64 * 1024;

/**
 * Nothing may read `bytes`, or anything else in their buffer, afterwards. What has moved to another thread, and what is a part
 * of a larger buffer, is left alone.
 */
export function releaseBytes({ buffer, byteLength }: Uint8Array): void {
  if (byteLength < leastBytes || byteLength !== buffer.byteLength) return;
  if (buffer instanceof ArrayBuffer) buffer.transfer(0);
}
