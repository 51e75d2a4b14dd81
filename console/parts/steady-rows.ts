// Keeps the rows of a list where they are while somebody is about to press one.
//
// What needs somebody comes first, so a row moves when its state changes. Between the look and the click that puts another row under the
// pointer. So the order is held while the pointer is over the list or the focus is in it, and for some seconds after. What a row
// shows changes all the same. The reader may ask for the order of now, and gets it with another filter, too.

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** How long the order is held after the pointer and the focus have left. */
const heldAfterMs = 5_000;
const lookMs = 500;

interface SteadyRowsOptions<Item> {
  /** What is to be shown, in the order of now. */
  readonly wanted: readonly Item[];
  /** Everything that there is: a row that no longer matches stays while the order is held. */
  readonly all: readonly Item[];
  readonly keyOf: (item: Item) => string;
  /** When it is another one, the reader has asked for other rows: nothing is held. */
  readonly question: unknown;
}

export interface SteadyRows<Item> {
  /** Of what is around the list, and is there without rows, too. */
  readonly box: RefObject<HTMLDivElement | null>;
  readonly rows: readonly Item[];
  /** Rows would stand elsewhere now. */
  readonly isOld: boolean;
  /** Shows the order of now. */
  readonly renew: () => void;
}

export function useSteadyRows<Item>(options: SteadyRowsOptions<Item>): SteadyRows<Item> {
  const { wanted, all, keyOf, question } = options;
  const box = useRef<HTMLDivElement>(null);
  const [isHeld, release] = useHold(box);
  const shown = useRef<{ readonly question: unknown; readonly keys: readonly string[] } | null>(null);
  const holds = isHeld && shown.current?.question === question;
  const rows = holds ? heldRows(shown.current?.keys ?? [], { wanted, all, keyOf }) : wanted;
  shown.current = { question, keys: rows.map(keyOf) };
  const isOld = holds && (rows.length !== wanted.length || rows.some((row, index) => row !== wanted[index]));
  return { box, rows, isOld, renew: release };
}

/** Rows that are shown keep their order, as long as they exist; new ones come after them. */
export function heldRows<Item>(
  shown: readonly string[],
  { wanted, all, keyOf }: Omit<SteadyRowsOptions<Item>, "question">,
): readonly Item[] {
  const known = new Map(all.map((item) => [keyOf(item), item]));
  const kept = shown.flatMap((key) => known.get(key) ?? []);
  const isShown = new Set(shown);
  return [...kept, ...wanted.filter((item) => !isShown.has(keyOf(item)))];
}

function useHold(box: RefObject<HTMLDivElement | null>): readonly [isHeld: boolean, release: () => void] {
  const [isHeld, setHeld] = useState(false);
  useEffect(() => {
    const hold = () => setHeld(true);
    const element = box.current;
    element?.addEventListener("pointerenter", hold);
    element?.addEventListener("pointermove", hold);
    element?.addEventListener("focusin", hold);
    return () => {
      element?.removeEventListener("pointerenter", hold);
      element?.removeEventListener("pointermove", hold);
      element?.removeEventListener("focusin", hold);
    };
  });
  useEffect(() => {
    if (!isHeld) return;
    let lastAtMs = performance.now();
    // A row that is taken away while it has the focus says nothing: so it is looked at, and no event is waited for.
    const timer = setInterval(() => {
      const element = box.current;
      const isUsed = element?.matches(":hover") || element?.contains(document.activeElement);
      if (isUsed) lastAtMs = performance.now();
      else if (performance.now() - lastAtMs >= heldAfterMs) setHeld(false);
    }, lookMs);
    return () => clearInterval(timer);
  }, [isHeld]);
  return [isHeld, () => setHeld(false)];
}
