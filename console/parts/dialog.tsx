import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

interface DialogProps {
  readonly title: string;
  /** Escape, too. Null: only what is in it closes it. */
  readonly onClose: (() => void) | null;
  readonly children?: ComponentChildren;
}

/** A question that keeps the page waiting. The browser's own dialog holds the focus, and gives it back. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const isGone = useRef(false);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => {
      // One that is only taken away does not give the focus back. Its event comes later, and is nobody's any more.
      isGone.current = true;
      dialog?.close();
    };
  }, []);
  const close = () => {
    if (isGone.current) return;
    if (onClose) onClose();
    // Browsers that do not know `closedby` close it at Escape.
    else element.current?.showModal();
  };
  return (
    <dialog
      class="dialog"
      ref={element}
      aria-labelledby={id}
      onClose={close}
      closedby={onClose ? "closerequest" : "none"}
    >
      <div class="stack">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}
