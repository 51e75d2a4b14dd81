// pgcopydb, if it is on the PATH together with a pg_dump that supports the servers' version.
// https://pgcopydb.readthedocs.io/en/latest/ref/pgcopydb_clone.html

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PostgresServer } from "../../src/demo/postgres-server.ts";
import { type BenchServers, database } from "../bench-servers.ts";
import type { Copier } from "./contender.ts";

/** Its defaults. */
const jobs = ["--table-jobs", "4", "--index-jobs", "4"];

export class Pgcopydb implements Copier {
  readonly name = "pgcopydb";

  constructor(private readonly servers: BenchServers) {}

  /** Whether it is installed with a pg_dump that is not older than servers of `version`, such as 17.10. */
  static isFor(version: string): boolean {
    if (Bun.which("pgcopydb") === null || Bun.which("pg_dump") === null) return false;
    const versionOutput = Bun.spawnSync(["pg_dump", "--version"]).stdout.toString();
    return Number.parseInt(/[\d.]+/.exec(versionOutput)?.[0] ?? "0", 10) >= Number.parseInt(version, 10);
  }

  async begin(): Promise<void> {
    const directory = await mkdtemp(join(tmpdir(), "millrace-pgcopydb-"));
    const { source, sink } = this.servers;
    const child = Bun.spawn(
      [
        // On failure it kills its whole process group, which would include this process.
        "setsid",
        "--wait",
        "pgcopydb",
        "clone",
        "--source",
        url(source),
        "--target",
        url(sink),
        "--dir",
        join(directory, "work"),
        ...jobs,
      ],
      { stdout: "ignore", stderr: "pipe" },
    );
    const [code, text] = await Promise.all([child.exited, new Response(child.stderr).text()]);
    await rm(directory, { recursive: true, force: true });
    if (code !== 0) throw new Error(`pgcopydb ended with ${code}: ${text.slice(-2000)}`);
  }

  async end(): Promise<void> {}

  /** It has one process per job, and most have exited by now. */
  usage(): null {
    return null;
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

function url({ host, port, user, password }: PostgresServer): string {
  return `postgres://${user}:${password}@${host}:${port}/${database}`;
}
