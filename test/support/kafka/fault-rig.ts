// A source under load, a Kafka cluster, and a connector's run between them: what fails is mended, and then all has to be right.

import type { ErrorCode } from "../../../src/errors/error-codes.ts";
import { LiveRun } from "../runtime/live-run.ts";
import { PostgresServer } from "../servers/postgres-server.ts";
import { waitFor } from "../wait-for.ts";
import type { KafkaListener } from "./broker-properties.ts";
import { KafkaCluster, type KafkaClusterOptions } from "./kafka-cluster.ts";
import { checkTopics, type OracleReport, oracleCatalog, oracleSql, oracleTableSql } from "./kafka-oracle.ts";
import { type LoadOptions, type OracleLoad, oracleLoad } from "./oracle-load.ts";

export interface FaultRigOptions {
  readonly cluster?: KafkaClusterOptions;
  readonly listener?: KafkaListener;
  readonly id?: string;
  /** Of the connection. */
  readonly config?: object;
  readonly auth?: object;
  readonly topicOptions?: object;
  readonly rows?: number;
  readonly tables?: readonly string[];
}

/** Resolves when all that is committed by now is durable at the sink; with how long that took. */
export async function untilDurable(
  query: <R extends object>(sql: string) => Promise<R[]>,
  slot: string,
  what: string,
  timeoutMs: number,
): Promise<number> {
  const begunMs = performance.now();
  const [at] = await query<{ lsn: string }>("select pg_current_wal_lsn()::text as lsn");
  // What the server writes for itself is reported only now and then.
  const nudge = setInterval(() => void query("update nudge set n = n + 1").catch(() => {}), 300);
  const isThere = async () => {
    const [found] = await query<{ there: boolean }>(
      `select confirmed_flush_lsn >= '${at!.lsn}'::pg_lsn as there from pg_replication_slots where slot_name = '${slot}'`,
    );
    return found?.there;
  };
  await waitFor(what, isThere, { timeoutMs, intervalMs: 20 }).finally(() => clearInterval(nudge));
  return performance.now() - begunMs;
}

const database = "shop";
/** What is back, is at work again within so long. */
export const recoverWithinMs = 10_000;

export class FaultRig implements AsyncDisposable {
  /** Everything that the status has said under `retry`. */
  readonly reasons = new Set<string>();
  readonly #watch: ReturnType<typeof setInterval>;

  private constructor(
    private readonly owned: AsyncDisposableStack,
    readonly server: PostgresServer,
    readonly cluster: KafkaCluster,
    readonly tables: string[],
    private readonly options: FaultRigOptions,
    public run: LiveRun,
  ) {
    this.#watch = setInterval(() => {
      const reason = this.run.status?.status.retry?.reason;
      if (reason !== undefined) this.reasons.add(reason);
    }, 5);
  }

  static async start(options: FaultRigOptions = {}): Promise<FaultRig> {
    await using building = new AsyncDisposableStack();
    const { tables = ["a", "b"], rows = 1_000 } = options;
    const [server, cluster] = await Promise.all([
      PostgresServer.start({ settings: { fsync: "off" } }),
      KafkaCluster.start(options.cluster),
    ]);
    building.use(server);
    building.use(cluster);
    await server.createDatabase(database);
    await server.query(
      [oracleSql, ...tables.map((table) => oracleTableSql(table, rows))].join("\n"),
      database,
    );
    const run = building.use(LiveRun.start(requestOf(server, cluster, options)));
    return new FaultRig(building.move(), server, cluster, [...tables], options, run);
  }

  get proxy() {
    return this.cluster.proxies[0]!;
  }

  /** Another run of the same connector. */
  another(options: Partial<FaultRigOptions> = {}): LiveRun {
    return LiveRun.after(this.run, requestOf(this.server, this.cluster, { ...this.options, ...options }));
  }

  /** `run` is the one that is looked at from here on. */
  async goOn(run: LiveRun): Promise<void> {
    this.run = run;
    await run.untilRealtime();
    await this.untilCaughtUp("the other run");
  }

  async query<R extends object>(sql: string): Promise<R[]> {
    return await this.server.query<R>(sql, database);
  }

  load(options: Partial<LoadOptions> = {}): OracleLoad {
    return oracleLoad(this.server, { database, tables: this.tables, ...options });
  }

  /** Resolves when all that is committed by now is durable at the sink; with how long that took. */
  async untilCaughtUp(what: string, timeoutMs = 60_000): Promise<number> {
    const asked = untilDurable((sql) => this.query(sql), this.run.slot, what, timeoutMs);
    return await asked.catch((error: unknown) => {
      const failures = this.run.failures
        .slice(-5)
        .map(({ error: { code, message } }) => `${code}: ${message}`);
      throw new Error(`${error}; ${JSON.stringify(this.run.status)}; ${failures.join("\n")}`);
    });
  }

  /** All is back, and has to be at work again soon. */
  async expectRecovery(what: string): Promise<number> {
    const ms = await this.untilCaughtUp(what);
    console.log(`${what}: recovered in ${Math.round(ms)} ms; said: ${[...this.reasons].join(" | ")}`);
    if (ms > recoverWithinMs) throw new Error(`${what}: recovered only after ${Math.round(ms)} ms`);
    return ms;
  }

  /** Throws unless the status has said so. */
  expectSaid(pattern: RegExp): void {
    if ([...this.reasons].some((reason) => pattern.test(reason))) return;
    throw new Error(`nothing like ${pattern} was said: ${[...this.reasons].join("\n") || "nothing"}`);
  }

  async expectFailure(code: ErrorCode, ...patterns: readonly RegExp[]): Promise<void> {
    const { error } = await this.run.untilFailed();
    console.log(`failed: ${error.code}: ${error.message}`);
    const isMeant = error.code === code && patterns.every((pattern) => pattern.test(error.message));
    if (!isMeant) throw new Error(`not as meant: ${error.code}: ${error.message}`);
  }

  /** The load is over. */
  async expectExact(): Promise<OracleReport> {
    await this.untilCaughtUp("the end");
    const report = await checkTopics(this.cluster, (sql) => this.query(sql), this.tables);
    console.log(JSON.stringify(report));
    return report;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#watch);
    await this.owned[Symbol.asyncDispose]();
  }
}

function requestOf(server: PostgresServer, cluster: KafkaCluster, options: FaultRigOptions) {
  const { id = "k", listener = "PLAINTEXT", config = {}, auth, topicOptions = {} } = options;
  const postgres = {
    connection: server.connection(database),
    replication_type: { logical_replication: {} },
    catalog: { name: database, ...oracleCatalog },
  };
  const connection = {
    brokers: cluster.addresses(listener),
    config: { linger_ms: 5, ...config },
    ...(auth ? { auth } : {}),
  };
  const topic_options = { partitions: 3, replication_factor: cluster.size, ...topicOptions };
  return {
    id,
    source: { postgres },
    sink: { kafka: { connection, format: { native: {} }, topic_options } },
  } as Parameters<typeof LiveRun.start>[0];
}
