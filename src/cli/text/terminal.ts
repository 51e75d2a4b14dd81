// Where a command writes its output, and its warnings.

import type { ServiceClient } from "../service-client.ts";
import { plainLines } from "./text-table.ts";

export interface Terminal {
  print(text: string): void;
  /** To standard error: what a program that reads the output must not take for a part of it. */
  warn(text: string): void;
  /** Characters in a line. */
  readonly width: number;
  /** Replaces the lines that were painted last; null: the output is no terminal. */
  readonly repaint: ((lines: readonly string[]) => void) | null;
}

export interface CommandContext {
  readonly client: ServiceClient;
  readonly terminal: Terminal;
  /** Print the service's answer as JSON, for programs. */
  readonly json: boolean;
}

export function printJson(terminal: Terminal, value: unknown): void {
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  // JSON.stringify escapes the other control characters already.
  terminal.print(JSON.stringify(value, null, 2).replaceAll(/[\u007f-\u009f]/g, escaped));
}

/** Standard output and standard error. */
export function ownTerminal(): Terminal {
  const { isTTY, columns, rows } = process.stdout;
  let painted = 0;
  const repaint = (all: readonly string[]) => {
    // Lines that have scrolled off the screen cannot be replaced.
    const lines = rows > 1 ? all.slice(0, rows - 1) : all;
    const up = painted > 0 ? `\x1b[${painted}A` : "";
    process.stdout.write(`${up}${lines.map((line) => `\x1b[2K${line}\n`).join("")}`);
    painted = lines.length;
  };
  return {
    // console.log does not tell what could not be written.
    print: (text) => process.stdout.write(`${plainLines(text)}\n`),
    warn: (text) => console.error(plainLines(text)),
    // A terminal that does not know its size reports 0.
    width: isTTY && columns > 0 ? columns : Number.POSITIVE_INFINITY,
    repaint: isTTY ? repaint : null,
  };
}
