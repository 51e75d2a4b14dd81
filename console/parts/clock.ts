// The time now, for texts like "3 s ago": one timer for the whole page.

import { Store, useStore } from "../store/store.ts";

const now = new Store(Date.now());
setInterval(() => {
  if (!document.hidden) now.set(Date.now());
}, 1_000);

export function useNow(): number {
  return useStore(now);
}
