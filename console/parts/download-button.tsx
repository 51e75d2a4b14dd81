import { Button } from "./button.tsx";

interface DownloadButtonProps {
  readonly text: string;
  /** The file's. */
  readonly name: string;
  /** What it is, for those who hear the page. */
  readonly what: string;
}

/** Long enough for the browser to begin. */
const keptMs = 10_000;

/** Saves text as a file. */
export function DownloadButton({ text, name, what }: DownloadButtonProps) {
  const save = () => {
    const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), keptMs);
  };
  return (
    <Button size="small" onClick={save} aria-label={`Download ${what}`}>
      Download
    </Button>
  );
}
