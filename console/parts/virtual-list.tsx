import type { ComponentChildren } from "preact";
import { useRowsOnPage } from "./seen-rows.ts";

interface VirtualListProps<Item> {
  /** Names the list for those who hear the page. */
  readonly label: string;
  readonly items: readonly Item[];
  readonly rowHeight: number;
  readonly keyOf: (item: Item) => string;
  readonly children: (item: Item, index: number) => ComponentChildren;
}

/** A list of any length, which scrolls with the page: only the rows that are seen are there. */
export function VirtualList<Item>({ label, items, rowHeight, keyOf, children }: VirtualListProps<Item>) {
  const { box, first, last } = useRowsOnPage(items.length, rowHeight);
  return (
    <section class="rows-on-page" ref={box} aria-label={label}>
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
