// Notices that the Postgres inside PGlite has died: by a PANIC (a full disk, a failed fsync), or in its memory. PGlite
// itself does not: it calls the dead program again and again within one turn, and the whole thread hangs in it.

import type { PGlite } from "@electric-sql/pglite";
import { MillraceError } from "../../errors/millrace-error.ts";

/** How PGlite's program leaves its main loop in order, to report an error. PGlite checks for the same number. */
const longJumpStatus = 100;

/** The parts of the program that PGlite calls in its loop. */
interface PostgresLoop {
  _PostgresMainLoopOnce: () => void;
  stackRestore: (pointer: number) => void;
}

export interface GuardedPglite {
  /** Aborted when the program has died: nothing more is asked of it, and every statement fails at once. */
  readonly died: AbortSignal;
}

/** From now on, the death of `client`'s program is noticed. */
export function guardPglite(client: PGlite): GuardedPglite {
  const death = new AbortController();
  // library edge: these functions are in the module, and not in its type.
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
  // Called behind every exception in the loop, outside of what catches it: the one way out.
  let isCaught = false;
  loop.stackRestore = (pointer) => {
    if (isCaught) death.signal.throwIfAborted();
    isCaught = death.signal.aborted;
    stackRestore(pointer);
  };
  const exec = client.execProtocolRawSync.bind(client);
  client.execProtocolRawSync = (message) => {
    death.signal.throwIfAborted();
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
