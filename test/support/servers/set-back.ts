// Sets a server back to an earlier moment, from which it goes on in another timeline: as a standby that is promoted and lacks what was written
// since. The server is stopped before each of these, and was started with `promotable`.

import { chown, rm } from "node:fs/promises";
import { join } from "node:path";
import { waitFor } from "../wait-for.ts";
import type { PostgresServer } from "./postgres-server.ts";

/** Archive recovery requires `restore_command`. There is no archive. */
export const promotable = { restore_command: "false" };

const dataOf = (at: PostgresServer) => join(at.directory, "data");

/** Returns the name of a copy of the server's data. */
export async function keepData(at: PostgresServer): Promise<string> {
  const copy = join(at.directory, "before");
  await copyData(dataOf(at), copy);
  return copy;
}

export async function setBack(at: PostgresServer, copy: string): Promise<void> {
  await rm(dataOf(at), { recursive: true, force: true });
  await copyData(copy, dataOf(at));
}

/** Starts the server at the end of its log, as a promoted standby, on the next timeline. */
export async function promote(at: PostgresServer): Promise<void> {
  const signal = join(dataOf(at), "recovery.signal");
  await Bun.write(signal, "");
  if (process.getuid?.() === 0) await chown(signal, 65_534, 65_534);
  await at.launch();
  // It accepts queries before the promotion is complete.
  await waitFor("the end of recovery", async () => {
    const [row] = await at.query<{ done: boolean }>("select not pg_is_in_recovery() as done");
    return row?.done;
  });
}

/** With the owner of its files. */
async function copyData(from: string, to: string): Promise<void> {
  const copied = Bun.spawn(["cp", "-a", from, to]);
  if ((await copied.exited) !== 0) throw new Error(`${from} could not be copied`);
}
