// Which rows of a long list are seen.

import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** Beyond what is seen, so that a quick scroll finds rows. */
const margin = 8;

export interface SeenRows {
  /** Of the element that scrolls. */
  readonly box: RefObject<HTMLElement | null>;
  readonly first: number;
  /** Not among them. */
  readonly last: number;
}

export function useSeenRows(count: number, rowHeight: number): SeenRows {
  const box = useRef<HTMLElement>(null);
  const [seen, setSeen] = useState({ top: 0, height: 600 });
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const look = () => setSeen({ top: element.scrollTop, height: element.clientHeight });
    look();
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  // The list may have become shorter since it was scrolled.
  const top = Math.min(seen.top, Math.max(0, count * rowHeight - seen.height));
  const first = Math.max(0, Math.floor(top / rowHeight) - margin);
  const last = Math.min(count, Math.ceil((top + seen.height) / rowHeight) + margin);
  return { box, first, last };
}
