// Loads something for a component, again and again if wanted. What was loaded stays while the next is on its way, so nothing flickers.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface Loaded<T> {
  /** Null: not there yet. */
  readonly data: T | null;
  /** Why the last try failed; null: it did not. */
  readonly error: unknown;
  readonly isLoading: boolean;
  readonly reload: () => void;
}

/**
 * @param load called when `keys` change, at `reload`, and every `everyMs` while the page is visible
 * @param everyMs null: not by itself
 */
export function useLoaded<T>(
  load: (signal: AbortSignal) => Promise<T>,
  keys: readonly unknown[],
  everyMs: number | null = null,
): Loaded<T> {
  const [state, setState] = useState<Omit<Loaded<T>, "reload">>({ data: null, error: null, isLoading: true });
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  const loadedFor = useRef<readonly unknown[] | null>(null);

  useEffect(() => {
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const isOther = loadedFor.current !== null && !sameKeys(loadedFor.current, keys);
    loadedFor.current = keys;
    setState(({ data, error }) => ({
      data: isOther ? null : data,
      error: isOther ? null : error,
      isLoading: true,
    }));

    const run = async () => {
      if (!document.hidden) await once();
      if (everyMs !== null && !ended.signal.aborted) timer = setTimeout(run, everyMs);
    };
    const once = async () => {
      try {
        const data = await latest.current(ended.signal);
        if (!ended.signal.aborted) setState({ data, error: null, isLoading: false });
      } catch (error) {
        if (!ended.signal.aborted) setState(({ data }) => ({ data, error, isLoading: false }));
      }
    };
    void once().then(() => {
      if (everyMs !== null && !ended.signal.aborted) timer = setTimeout(run, everyMs);
    });
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [...keys, turn, everyMs]);

  return { ...state, reload: useCallback(() => setTurn((count) => count + 1), []) };
}

function sameKeys(one: readonly unknown[], other: readonly unknown[]): boolean {
  return one.length === other.length && one.every((key, index) => Object.is(key, other[index]));
}
