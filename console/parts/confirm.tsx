import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { lateFailure } from "../store/late-failure.ts";
import { Button } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import { Failure } from "./notice.tsx";

interface ConfirmProps {
  /** Names the action and its object: "Delete connector orders". */
  readonly title: string;
  /** What the button does, in a word or two. */
  readonly action: string;
  readonly isDangerous?: boolean;
  /** Says before what will happen. */
  readonly children?: ComponentChildren;
  readonly run: () => Promise<unknown>;
  readonly onClose: () => void;
}

/** Says what an action will do, does it when told to, and shows what went wrong. Closed meanwhile it goes on. */
export function Confirm({ title, action, isDangerous = false, children, run, onClose }: ConfirmProps) {
  const [isRunning, setRunning] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const isThere = useRef(true);
  useEffect(
    () => () => {
      isThere.current = false;
    },
    [],
  );
  const go = async () => {
    setRunning(true);
    setError(null);
    try {
      await run();
      // Closed meanwhile, another dialog may stand in its place.
      if (isThere.current) onClose();
    } catch (failure) {
      if (!isThere.current) return lateFailure.set({ title: `${title}: that did not work`, error: failure });
      setError(failure);
      setRunning(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      {error !== null && <Failure title="That did not work" error={error} />}
      <div class="row">
        <Button kind={isDangerous ? "danger" : "primary"} disabled={isRunning} onClick={go}>
          {action}
        </Button>
        <Button onClick={onClose} autofocus={isDangerous}>
          {isRunning ? "Close" : "Cancel"}
        </Button>
      </div>
    </Dialog>
  );
}
