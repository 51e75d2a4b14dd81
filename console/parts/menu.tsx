import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Button } from "./button.tsx";

interface MenuProps {
  readonly label: string;
  /** Buttons and links. */
  readonly children?: ComponentChildren;
}

/** Shows what is needed seldom when asked to. Escape, a choice, or a step outside closes it. */
export function Menu({ label, children }: MenuProps) {
  const [isOpen, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const id = useId();
  const opener = () => box.current?.querySelector("button");
  useEffect(() => {
    if (!isOpen) return;
    const leave = (event: Event) => {
      if (event.target instanceof Node && !box.current?.contains(event.target)) setOpen(false);
    };
    document.addEventListener("pointerdown", leave);
    document.addEventListener("focusin", leave);
    return () => {
      document.removeEventListener("pointerdown", leave);
      document.removeEventListener("focusin", leave);
    };
  }, [isOpen]);
  const close = () => {
    // A dialog that the choice opens gives the focus back to here.
    opener()?.focus();
    setOpen(false);
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: it listens for what its buttons get.
    <div
      class="menu"
      ref={box}
      onKeyDown={(event) => {
        if (event.key === "Escape" && isOpen) close();
      }}
    >
      <Button aria-expanded={isOpen} aria-controls={id} onClick={() => setOpen(!isOpen)}>
        {label} <span aria-hidden="true">▾</span>
      </Button>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: see above. */}
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: the buttons make clicks of keys. */}
      <div class="menu-items" id={id} hidden={!isOpen} onClick={close}>
        {children}
      </div>
    </div>
  );
}
