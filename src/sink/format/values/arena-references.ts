// Counts references to a batch's arena: of the batch while it is cut, and of each body with a large value in it. The last release
// gives the memory back at once. The collector would be late: a large value would be in memory together with the next one.

import { releaseBytes } from "../../../memory/release-bytes.ts";

const references = new WeakMap<Uint8Array, number>();

export function retainArena(arena: Uint8Array): void {
  references.set(arena, (references.get(arena) ?? 0) + 1);
}

/** Undoes one `retainArena`. The caller does not read the arena any more. */
export function releaseArena(arena: Uint8Array): void {
  const left = (references.get(arena) ?? 0) - 1;
  references.set(arena, left);
  if (left === 0) releaseBytes(arena);
}
