import { useEffect, useRef, useState } from "preact/hooks";

/**
 * A text in two lines, and all of it over its neighbours while the pointer is on it or the row has the focus. Escape folds it again, so
 * that it can be looked behind (WCAG 2.2, 1.4.13).
 */
export function UnfoldingDetail({ text }: { readonly text: string }) {
  const [isOpen, setOpen] = useState(false);
  const element = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    const row = element.current?.closest("article");
    const focus = () => setOpen(row?.matches(":has(:focus-visible)") ?? false);
    const blur = () => setOpen(false);
    row?.addEventListener("focusin", focus);
    row?.addEventListener("focusout", blur);
    return () => {
      row?.removeEventListener("focusin", focus);
      row?.removeEventListener("focusout", blur);
    };
  }, []);
  useEffect(() => {
    if (!isOpen) return;
    const fold = ({ key }: KeyboardEvent) => {
      if (key === "Escape") setOpen(false);
    };
    addEventListener("keydown", fold);
    return () => removeEventListener("keydown", fold);
  }, [isOpen]);
  return (
    <div class={`detail small soft ${isOpen ? "open" : ""}`}>
      <p ref={element} onPointerEnter={() => setOpen(true)} onPointerLeave={() => setOpen(false)}>
        {text}
      </p>
    </div>
  );
}
