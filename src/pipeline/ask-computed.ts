// Lets a source ask the sink which generated columns it computes itself.

import type { AskComputed } from "../change/computed-columns.ts";
import type { Sink } from "../sink/sink.ts";

/** For `Source.tables`. `opened`: the sink can be asked then. Undefined: the sink computes none. */
export function askComputed(
  sink: Sink,
  opened: Promise<unknown> = Promise.resolve(),
): AskComputed | undefined {
  if (!sink.computed) return undefined;
  return async (tables, sourceVersion) => {
    await opened;
    return (await sink.computed?.(tables, sourceVersion)) ?? new Map();
  };
}
