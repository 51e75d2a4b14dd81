// The browser's address as a store. Moving within the console loads no page.

import { type Readable, Store } from "../store/store.ts";

const current = new Store(location.pathname + location.search);
addEventListener("popstate", () => {
  const to = location.pathname + location.search;
  // The browser has moved already: it is put back. Where it was led to is one step back from there.
  if (holder?.(to, () => history.back())) history.pushState(null, "", current.value);
  else current.set(to);
});

/** Returns whether the move is held back, to ask first. `move` makes it after all. */
type Holder = (to: string, move: () => void) => boolean;
let holder: Holder | null = null;

/** Asks `hold` before each move within the console. Returns how to stop it. */
export function holdMoves(hold: Holder): () => void {
  holder = hold;
  return () => {
    if (holder === hold) holder = null;
  };
}

/** Path and query. */
export const address: Readable<string> = current;

/** `replace`: without a step for the browser's back button. */
export function navigate(to: string, { replace = false } = {}): void {
  const isHere = to === location.pathname + location.search;
  if (isHere || holder?.(to, () => navigate(to, { replace }))) return;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  const isOtherPage = !replace;
  current.set(location.pathname + location.search);
  if (isOtherPage) scrollTo(0, 0);
}

/** Sets parameters of the query in place; null or "": takes one away. */
export function setQuery(changes: Readonly<Record<string, string | null>>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  navigate(location.pathname + (text && `?${text}`), { replace: true });
}
