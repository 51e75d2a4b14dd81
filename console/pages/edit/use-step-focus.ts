// After a step, those who use the keyboard or hear the page go on at the next one's heading.

import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { EditStep } from "../../route/route.ts";

export function useStepFocus(step: EditStep, isElsewhere: boolean): RefObject<HTMLHeadingElement | null> {
  const heading = useRef<HTMLHeadingElement>(null);
  const shown = useRef(step);
  useEffect(() => {
    if (shown.current === step) return;
    shown.current = step;
    if (!isElsewhere) heading.current?.focus({ preventScroll: true });
  }, [step]);
  return heading;
}
