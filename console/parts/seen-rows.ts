// Which rows of a long list are seen: in a box that scrolls, or on the page.

import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** Beyond what is seen, so that a quick scroll finds rows. */
const margin = 8;

export interface SeenRows {
  /** Of the list: the element that scrolls, or the one that is as high as all rows. */
  readonly box: RefObject<HTMLElement | null>;
  readonly first: number;
  /** Not among them. */
  readonly last: number;
}

/** The part of the list that is seen, in pixels from its first row on. */
interface Seen {
  readonly top: number;
  readonly height: number;
}

/** The list scrolls by itself. */
export function useSeenRows(count: number, rowHeight: number): SeenRows {
  return useRows(count, rowHeight, (list, changed) => {
    list.addEventListener("scroll", changed, { passive: true });
    const observer = new ResizeObserver(changed);
    observer.observe(list);
    return {
      seen: () => ({ top: list.scrollTop, height: list.clientHeight }),
      stop: () => {
        observer.disconnect();
        list.removeEventListener("scroll", changed);
      },
    };
  });
}

/** The page scrolls, and the list with it. */
export function useRowsOnPage(count: number, rowHeight: number): SeenRows {
  return useRows(count, rowHeight, (list, changed) => {
    addEventListener("scroll", changed, { passive: true });
    addEventListener("resize", changed);
    // What stands above the list may grow, and move it.
    const observer = new ResizeObserver(changed);
    observer.observe(document.body);
    return {
      seen: () => ({ top: Math.max(0, -list.getBoundingClientRect().top), height: innerHeight }),
      stop: () => {
        observer.disconnect();
        removeEventListener("scroll", changed);
        removeEventListener("resize", changed);
      },
    };
  });
}

interface Watch {
  readonly seen: () => Seen;
  readonly stop: () => void;
}

function useRows(
  count: number,
  rowHeight: number,
  watch: (list: HTMLElement, changed: () => void) => Watch,
): SeenRows {
  const box = useRef<HTMLElement>(null);
  const [seen, setSeen] = useState<Seen>({ top: 0, height: 600 });
  useLayoutEffect(() => {
    const list = box.current;
    if (!list) return;
    const { seen: look, stop } = watch(list, () => changed());
    const changed = () => {
      const now = look();
      // Less than a row of scrolling shows no other rows: the margin has them.
      const top = now.top - (now.top % rowHeight);
      setSeen((before) => (before.top === top && before.height === now.height ? before : { ...now, top }));
    };
    changed();
    return stop;
  }, [rowHeight]);
  // The list may have become shorter since it was scrolled.
  const top = Math.min(seen.top, Math.max(0, count * rowHeight - seen.height));
  const first = Math.max(0, Math.floor(top / rowHeight) - margin);
  const last = Math.min(count, Math.ceil((top + seen.height) / rowHeight) + margin);
  return { box, first, last };
}
