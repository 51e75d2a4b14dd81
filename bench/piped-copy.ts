// `psql COPY … | psql COPY …` in binary, several tables side by side: what a script does by hand. Keys are made after the rows, as
// pg_restore makes them.

import type { PostgresServer } from "../src/demo/postgres-server.ts";
import { type BenchServers, database } from "./bench-servers.ts";
import type { Copier } from "./contender.ts";

/** As many as millrace copies by default. */
const lanes = 4;

export class PipedCopy implements Copier {
  readonly name = "psql";

  constructor(
    private readonly servers: BenchServers,
    private readonly tables: readonly string[],
  ) {}

  /** Null: it is not there. */
  static find(): string | null {
    return Bun.which("psql");
  }

  async begin(): Promise<void> {
    const { sink } = this.servers;
    await this.servers.createSinkTables();
    // All of them have the columns of this one.
    const made = this.tables.map((name) => `create table ${name} (like bench_blank)`).join("; ");
    await sink.query(
      `alter table bench rename to bench_blank; alter table bench_blank drop constraint bench_pkey; ${made}`,
      database,
    );
    const waiting = [...this.tables];
    const lane = async () => {
      for (let table = waiting.pop(); table; table = waiting.pop()) await this.#copy(table);
    };
    await Promise.all(Array.from({ length: lanes }, lane));
  }

  async #copy(table: string): Promise<void> {
    const { source, sink } = this.servers;
    const from = `${psql(source)} -c "copy ${table} to stdout (format binary)"`;
    const into = `${psql(sink)} -c "copy ${table} from stdin (format binary)" -c "alter table ${table} add primary key (id)"`;
    const child = Bun.spawn(["bash", "-o", "pipefail", "-c", `${from} | ${into}`], {
      stdout: "ignore",
      stderr: "pipe",
    });
    if ((await child.exited) !== 0) throw new Error(`psql: ${await new Response(child.stderr).text()}`);
  }

  async end(): Promise<void> {}

  /** It has many, and they do next to nothing but copy. */
  usage(): null {
    return null;
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

function psql({ host, port, user }: PostgresServer): string {
  return `psql -X -q -v ON_ERROR_STOP=1 -h ${host} -p ${port} -U ${user} -d ${database}`;
}
