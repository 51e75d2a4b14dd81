// Where a command writes what it has found.

import type { ServiceClient } from "./service-client.ts";

export interface Terminal {
  print(text: string): void;
  /** Characters of a line. */
  readonly width: number;
  /** Lines are written over those that stand last; null where nobody looks, such as in a file. */
  readonly repaint: ((lines: readonly string[]) => void) | null;
}

export interface CommandContext {
  readonly client: ServiceClient;
  readonly terminal: Terminal;
  /** For a program: what the service answered, as JSON. */
  readonly json: boolean;
}

export function printJson(terminal: Terminal, value: unknown): void {
  terminal.print(JSON.stringify(value, null, 2));
}

/** Standard output. */
export function ownTerminal(): Terminal {
  const { isTTY, columns } = process.stdout;
  let painted = 0;
  const repaint = (lines: readonly string[]) => {
    const up = painted > 0 ? `\x1b[${painted}A` : "";
    process.stdout.write(`${up}${lines.map((line) => `\x1b[2K${line}\n`).join("")}`);
    painted = lines.length;
  };
  return {
    print: (text) => console.log(text),
    width: isTTY ? columns : Number.POSITIVE_INFINITY,
    repaint: isTTY ? repaint : null,
  };
}
