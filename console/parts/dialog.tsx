import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

interface DialogProps {
  readonly title: string;
  /** Escape, too. */
  readonly onClose: () => void;
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
  return (
    <dialog class="dialog" ref={element} aria-labelledby={id} onClose={() => isGone.current || onClose()}>
      <div class="stack">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}
