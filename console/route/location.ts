// The browser's address as a store. Moving within the console loads no page.

import { type Readable, Store } from "../store/store.ts";

const current = new Store(location.pathname + location.search);
addEventListener("popstate", () => current.set(location.pathname + location.search));

/** Path and query. */
export const address: Readable<string> = current;

/** `replace`: without a step for the browser's back button. */
export function navigate(to: string, { replace = false } = {}): void {
  if (to === location.pathname + location.search) return;
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
