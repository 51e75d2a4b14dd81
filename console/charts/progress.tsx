import { percent } from "../text/numbers.ts";

interface ProgressProps {
  /** Names what progresses for those who hear the page. */
  readonly label: string;
  readonly done: number;
  /** 0: not known. */
  readonly all: number;
  /** What stands below, for instance the time left. */
  readonly note?: string;
}

export function Progress({ label, done, all, note }: ProgressProps) {
  const known = all > 0;
  return (
    <div class="progress">
      <progress
        class="progress-track"
        aria-label={label}
        {...(known && { max: all, value: Math.min(done, all) })}
      />
      {(known || note) && (
        <span class="small soft">
          {known && percent(done, all)}
          {known && note ? " · " : ""}
          {note}
        </span>
      )}
    </div>
  );
}
