// `psql COPY … | psql COPY …` in binary, several tables in parallel, as a shell script would do it. Like pg_restore, it
// creates primary keys after the rows.

import type { PostgresServer } from "../../src/demo/postgres-server.ts";
import { type BenchServers, database } from "../bench-servers.ts";
import type { Copier } from "./contender.ts";

/** The same as millrace's default. */
const maxConcurrent = 4;

export class PipedCopy implements Copier {
  readonly name = "psql";

  constructor(
    private readonly servers: BenchServers,
    private readonly tables: readonly string[],
  ) {}

  /** Null if psql is not installed. */
  static find(): string | null {
    return Bun.which("psql");
  }

  async begin(): Promise<void> {
    const { sink } = this.servers;
    await this.servers.createSinkTables();
    // All tables have the columns of this one.
    const createTables = this.tables.map((name) => `create table ${name} (like bench_blank)`).join("; ");
    await sink.query(
      `alter table bench rename to bench_blank; alter table bench_blank drop constraint bench_pkey; ${createTables}`,
      database,
    );
    const waiting = [...this.tables];
    const worker = async () => {
      for (let table = waiting.pop(); table; table = waiting.pop()) await this.#copy(table);
    };
    await Promise.all(Array.from({ length: maxConcurrent }, worker));
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

  /** It has many processes, which do little besides copying. */
  usage(): null {
    return null;
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

function psql({ host, port, user }: PostgresServer): string {
  return `psql -X -q -v ON_ERROR_STOP=1 -h ${host} -p ${port} -U ${user} -d ${database}`;
}
