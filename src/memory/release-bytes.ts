// Frees the memory of a buffer at once. The garbage collector sees only the small object in front of a hundred
// megabytes, and would let the next value add to the previous ones.

/** Smaller buffers are left to the collector: they are many, and cost little. */
const leastBytes = 64 * 1024;

/**
 * Nothing may read `bytes`, or anything else in their buffer, afterwards. It leaves alone what has moved to another
 * thread, and what is part of a larger buffer.
 */
export function releaseBytes(bytes: Pick<Uint8Array, "buffer" | "byteLength">): void {
  // A small array has no buffer before somebody asks for it: to make one costs more than all else here.
  if (bytes.byteLength < leastBytes) return;
  const { buffer } = bytes;
  if (bytes.byteLength !== buffer.byteLength) return;
  if (buffer instanceof ArrayBuffer) buffer.transfer(0);
}
