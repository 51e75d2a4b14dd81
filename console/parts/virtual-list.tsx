import type { ComponentChildren } from "preact";
import { useSeenRows } from "./seen-rows.ts";

interface VirtualListProps<Item> {
  /** Names the list for those who hear the page. */
  readonly label: string;
  readonly items: readonly Item[];
  readonly rowHeight: number;
  /** The list is as high as its rows, but at most this. */
  readonly maxHeight: string;
  readonly keyOf: (item: Item) => string;
  readonly children: (item: Item, index: number) => ComponentChildren;
}

/** A list of any length: only the rows that are seen are there. */
export function VirtualList<Item>(props: VirtualListProps<Item>) {
  const { label, items, rowHeight, maxHeight, keyOf, children } = props;
  const { box, first, last } = useSeenRows(items.length, rowHeight);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard.
    <section class="virtual" ref={box} style={{ maxHeight }} tabIndex={0} aria-label={label}>
      {/* biome-ignore lint/a11y/useSemanticElements: rows are placed, which list elements do not hold. */}
      <div class="virtual-all" role="list" style={{ height: `${items.length * rowHeight}px` }}>
        {items.slice(first, last).map((item, offset) => {
          const index = first + offset;
          return (
            // biome-ignore lint/a11y/useSemanticElements: see above.
            <div
              key={keyOf(item)}
              role="listitem"
              aria-setsize={items.length}
              aria-posinset={index + 1}
              style={{ top: `${index * rowHeight}px`, height: `${rowHeight}px` }}
            >
              {children(item, index)}
            </div>
          );
        })}
      </div>
    </section>
  );
}
