// Who still needs a batch's arena: the batch while it is cut, and each body with a large value that lies there. The last one
// gives its memory back, at once; the collector would leave a large value beside the next one.

import { releaseBytes } from "../../../change/release-bytes.ts";

const holds = new WeakMap<Uint8Array, number>();

export function hold(arena: Uint8Array): void {
  holds.set(arena, (holds.get(arena) ?? 0) + 1);
}

/** Undoes one `hold`. Whoever calls it reads the arena no more. */
export function letGo(arena: Uint8Array): void {
  const left = (holds.get(arena) ?? 0) - 1;
  holds.set(arena, left);
  if (left === 0) releaseBytes(arena);
}
