// Where to go from a step.

import { useState } from "preact/hooks";
import { Button } from "../../../parts/button.tsx";
import type { EditStep } from "../../../route/route.ts";

export interface StepProps {
  readonly go: (to: EditStep) => void;
  /** Goes on if the API finds nothing wrong with what this step is about. */
  readonly next: (from: "source" | "sink" | "tables", to: EditStep) => Promise<void>;
  /** Shows what the API refused. */
  readonly refuse: (error: unknown) => void;
}

interface StepFooterProps {
  readonly back?: { readonly label: string; readonly go: () => void };
  readonly next: { readonly label: string; readonly go: () => Promise<void> };
}

export function StepFooter({ back, next }: StepFooterProps) {
  const [isBusy, setBusy] = useState(false);
  const goOn = async () => {
    setBusy(true);
    await next.go();
    setBusy(false);
  };
  return (
    <div class="row step-footer">
      <Button kind="primary" disabled={isBusy} onClick={goOn}>
        {next.label}
      </Button>
      {back && (
        <Button kind="plain" onClick={back.go}>
          {back.label}
        </Button>
      )}
    </div>
  );
}
