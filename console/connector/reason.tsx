import { useState } from "preact/hooks";
import { Button } from "../parts/button.tsx";
import { bytes } from "../text/numbers.ts";

interface ReasonProps {
  readonly text: string;
  readonly class?: string;
}

/** Characters that are shown at first. */
const shownAtFirst = 1_500;

/** What the service says of a failure. It may quote others at any length, who shall not push the page away. */
export function Reason({ text, class: extra = "" }: ReasonProps) {
  const [showsAll, setShowsAll] = useState(false);
  const isCut = text.length > shownAtFirst && !showsAll;
  return (
    <p class={`reason ${extra}`}>
      {isCut ? `${text.slice(0, shownAtFirst)}… ` : text}
      {isCut && (
        <Button size="small" onClick={() => setShowsAll(true)}>
          Show all, {bytes(text.length)}
        </Button>
      )}
    </p>
  );
}
