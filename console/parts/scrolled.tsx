import type { ComponentChildren } from "preact";

interface ScrolledProps {
  /** The id of the heading that names what is in it. */
  readonly labelledBy: string;
  readonly children: ComponentChildren;
}

/** A card with a table that may be wider than the page. */
export function Scrolled({ labelledBy, children }: ScrolledProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard.
    <section class="card wide" tabIndex={0} aria-labelledby={labelledBy}>
      {children}
    </section>
  );
}
