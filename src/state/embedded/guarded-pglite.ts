// Notices when the Postgres inside PGlite has died, by a PANIC (a full disk, a failed fsync) or by a memory fault.
// PGlite does not notice: it calls the dead program over and over in one tick, and the whole thread hangs.

import type { PGlite } from "@electric-sql/pglite";
import { MillraceError } from "../../errors/millrace-error.ts";
import { StreamGarbage } from "../../memory/stream-garbage.ts";

/**
 * The exit status by which PGlite's program leaves its main loop to report an error. PGlite checks for the same number.
 */
const longJumpStatus = 100;

/**
 * Garbage of a call, approximately. The collector counts the program's memory as live, twice 128 MB of it, and lets as much garbage
 * pile up beside it. Nearly all of a call's garbage is young, which is collected often at little cost.
 */
const leftByCallBytes = 6 * 1024;

/** The functions of the program that PGlite calls in its loop. */
interface PostgresLoop {
  _PostgresMainLoopOnce: () => void;
  stackRestore: (pointer: number) => void;
}

export interface GuardedPglite {
  /** Aborted when the program has died. From then on every statement fails at once. */
  readonly died: AbortSignal;
}

/** From now on the death of `client`'s program is noticed, and the garbage of its calls is collected. */
export function guardPglite(client: PGlite, garbage = new StreamGarbage()): GuardedPglite {
  const death = new AbortController();
  // library edge: the module has these functions, its type does not.
  const loop = client.Module as unknown as PostgresLoop;
  const { _PostgresMainLoopOnce: runOnce, stackRestore } = loop;
  loop._PostgresMainLoopOnce = () => {
    death.signal.throwIfAborted();
    try {
      runOnce();
    } catch (error) {
      if ((error as { status?: unknown }).status !== longJumpStatus) death.abort(diedOf(error));
      throw error;
    }
  };
  // PGlite calls this after every exception in the loop, outside of its try block: throwing here is the only way out of
  // the loop.
  let isCaught = false;
  loop.stackRestore = (pointer) => {
    if (isCaught) death.signal.throwIfAborted();
    isCaught = death.signal.aborted;
    stackRestore(pointer);
  };
  const exec = client.execProtocolRawSync.bind(client);
  client.execProtocolRawSync = (message) => {
    death.signal.throwIfAborted();
    garbage.released(leftByCallBytes);
    return exec(message);
  };
  return { died: death.signal };
}

function diedOf(error: unknown): MillraceError {
  const text = error instanceof Error ? error.message : String(error);
  return new MillraceError(
    "state_unavailable",
    `The embedded database has stopped (${text}). The disk may be full or failing. What was stored is safe; start the service again.`,
    { cause: error },
  );
}
