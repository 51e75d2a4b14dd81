// Displays a few lines that change in place on a terminal. On any other output it prints them now and then.

const plainIntervalMs = 2_000;

export interface DisplayOutput {
  write(text: string): void;
  readonly isTerminal: boolean;
  /** Width in characters. Lines are cut there, because a wrapped line cannot be overwritten. */
  readonly columns: () => number;
}

export function terminalOutput(stream: NodeJS.WriteStream): DisplayOutput {
  return {
    write: (text) => {
      stream.write(text);
    },
    isTerminal: stream.isTTY === true,
    columns: () => stream.columns || 80,
  };
}

export class LiveDisplay {
  #drawn = 0;
  #lastPlainMs = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly output: DisplayOutput,
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** Replaces the lines of the previous call. */
  show(lines: readonly string[]): void {
    if (this.output.isTerminal) {
      const width = this.output.columns();
      this.#erase();
      this.output.write(lines.map((line) => `${line.slice(0, width)}\n`).join(""));
      this.#drawn = lines.length;
    } else if (this.nowMs() - this.#lastPlainMs >= plainIntervalMs) {
      this.#lastPlainMs = this.nowMs();
      this.output.write(lines.map((line) => `${line}\n`).join(""));
    }
  }

  /** Prints a permanent line above the lines of the next `show`. */
  print(line = ""): void {
    this.#erase();
    this.output.write(`${line}\n`);
  }

  #erase(): void {
    // Cursor up, then clear to the end of the screen (ECMA-48).
    if (this.#drawn > 0) this.output.write(`\x1b[${this.#drawn}A\x1b[J`);
    this.#drawn = 0;
  }
}
