import { useEffect, useState } from "preact/hooks";
import { Button } from "./button.tsx";

const shownMs = 2_000;

/** Puts text into the clipboard. `what` is named, as tables are copied, too. */
export function CopyButton({ text, what }: { readonly text: string; readonly what: string }) {
  const [outcome, setOutcome] = useState<"Copied" | "Not copied" | null>(null);
  useEffect(() => {
    if (outcome === null) return;
    const timer = setTimeout(() => setOutcome(null), shownMs);
    return () => clearTimeout(timer);
  }, [outcome]);
  const copy = async () => setOutcome((await toClipboard(text)) ? "Copied" : "Not copied");
  return (
    <>
      <Button size="small" onClick={copy}>
        {outcome ?? `Copy ${what}`}
      </Button>
      <span class="only-spoken" role="status">
        {outcome ?? ""}
      </span>
    </>
  );
}

/** The clipboard's own interface exists on secure pages alone; the older way works on http://host too. */
async function toClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand("copy");
    area.remove();
    return isCopied;
  }
}
