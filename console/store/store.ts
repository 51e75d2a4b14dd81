// A value that changes, and who wants to know.

import { useEffect, useReducer, useRef } from "preact/hooks";

export interface Readable<T> {
  readonly value: T;
  /** Returns how to stop it. */
  subscribe(listener: () => void): () => void;
}

export class Store<T> implements Readable<T> {
  #value: T;
  readonly #listeners = new Set<() => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const listener of this.#listeners) listener();
  }

  update(change: (value: T) => T): void {
    this.set(change(this.#value));
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** Renders the component again when what it selects is another value. */
export function useStore<T, Selected = T>(
  store: Readable<T>,
  select: (value: T) => Selected = (value) => value as unknown as Selected,
): Selected {
  const [, render] = useReducer((count: number) => count + 1, 0);
  const selected = select(store.value);
  const shown = useRef({ select, selected });
  shown.current = { select, selected };
  useEffect(() => {
    const look = () => {
      if (!Object.is(shown.current.select(store.value), shown.current.selected)) render(0);
    };
    // It may have changed between rendering and now.
    look();
    return store.subscribe(look);
  }, [store]);
  return selected;
}
