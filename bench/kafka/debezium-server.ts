// Debezium Server with its Kafka sink, in a process of its own, with a heap of 1 GB. It has no command to stop and to go
// on, so it is frozen meanwhile: it goes on with its connections, and with the code that its JVM has compiled.

import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pollUntil } from "../../src/demo/poll-until.ts";
import { propertiesText } from "../../test/support/kafka/broker-properties.ts";
import type { KafkaCluster } from "../../test/support/kafka/kafka-cluster.ts";
import { type BenchServers, database } from "../bench-servers.ts";
import { fillHot } from "../bench-tables.ts";
import type { Contender } from "../contenders/contender.ts";
import type { Usage } from "../measure/process-usage.ts";
import { UsageMeter } from "../measure/usage-meter.ts";
import type { DebeziumDistribution } from "./debezium-distribution.ts";
import { debeziumProperties } from "./debezium-properties.ts";
import { hasMarker, topicOf } from "./kafka-topics.ts";

export interface DebeziumOptions {
  /** Of its topics, which nobody else has. */
  readonly prefix: string;
  readonly isPrompt?: boolean;
}

/** What it logs when it reads the stream, and when it begins to read tables. */
const streamsLine = "Processing messages";
const copiesLine = "Snapshot step 1 -";
const slot = "bench_debezium";
/** Those that the Kafka benchmarks write to. */
const tables = ["bench", "bench_hot", "bench_latency", "bench_marker"];
const flags = ["-Xmx1g"];
/** Its JVM compiles meanwhile what it will need. */
const warmUpRows = 100_000;
const poll = { timeoutMs: 600_000, intervalMs: 20 };
const maxLogLines = 200;

export class DebeziumServer implements Contender {
  readonly name = "debezium";
  readonly #meter = new UsageMeter();
  readonly #log: string[] = [];
  #child: Bun.Subprocess<"ignore", "pipe", "pipe"> | null = null;

  private constructor(
    private readonly servers: BenchServers,
    private readonly cluster: KafkaCluster,
    private readonly distribution: DebeziumDistribution,
    private readonly options: DebeziumOptions,
    private readonly directory: string,
  ) {}

  /** It is not started yet. */
  static async make(
    servers: BenchServers,
    cluster: KafkaCluster,
    distribution: DebeziumDistribution,
    options: DebeziumOptions,
  ): Promise<DebeziumServer> {
    const directory = await mkdtemp(join(tmpdir(), "millrace-debezium-"));
    return new DebeziumServer(servers, cluster, distribution, options, directory);
  }

  /** Leaves alone what is there already, and warms up. */
  async begin(): Promise<void> {
    await this.#launch("no_data", streamsLine);
    await this.servers.source.query(fillHot(warmUpRows), database);
    await this.untilMarkerArrives(await this.servers.writeMarker());
  }

  /** Starts it, and freezes it when it is about to copy. */
  async prepareCopy(): Promise<void> {
    await this.#launch("initial", copiesLine);
    await this.pause();
  }

  async pause(): Promise<void> {
    this.#child?.kill("SIGSTOP");
  }

  async resume(): Promise<void> {
    this.#child?.kill("SIGCONT");
  }

  async untilMarkerArrives(marker: number): Promise<void> {
    const isThere = async () => {
      if (await hasMarker(this.cluster, this.options.prefix, marker)) return true;
      this.#throwIfEnded();
      return false;
    };
    await pollUntil("the marker arrived", isThere, poll);
  }

  async end(): Promise<void> {
    await this.#kill();
    const { source } = this.servers;
    const isFree = async () => {
      const rows = await source.query("select from pg_replication_slots where active");
      return rows.length === 0;
    };
    await pollUntil("the walsender is gone", isFree, poll);
    await source.query(
      `select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = '${slot}'`,
    );
    await source.query(`drop publication if exists ${slot}`, database);
  }

  usage(): Usage | null {
    return this.#meter.read(this.#child?.pid);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#kill();
    await rm(this.directory, { recursive: true, force: true });
  }

  async #launch(snapshotMode: "initial" | "no_data", expectedLine: string): Promise<void> {
    // It leaves topics to the brokers, which do not make any here.
    for (const table of tables) await this.cluster.createTopic(topicOf(this.options.prefix, table));
    // While it is frozen, it does not answer the source.
    await this.servers.source.query(`alter database ${database} set wal_sender_timeout = 0`);
    await this.#writeConfiguration(snapshotMode);
    const { java, classPath } = this.distribution;
    const child = Bun.spawn([java, ...flags, "-cp", classPath, "io.debezium.server.Main"], {
      cwd: this.directory,
      // Variables such as DEBEZIUM_SINK_TYPE would outrank its configuration.
      env: { PATH: process.env.PATH, HOME: process.env.HOME },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    this.#child = child;
    // It does not outlive this process.
    await this.cluster.tool.ask("guard", { pid: child.pid });
    const hasSaid = Promise.withResolvers<void>();
    const read = async (output: ReadableStream<Uint8Array>) => {
      for await (const line of linesOf(output)) {
        this.#log.push(line);
        if (this.#log.length > maxLogLines) this.#log.shift();
        if (line.includes(expectedLine)) hasSaid.resolve();
      }
    };
    for (const output of [child.stdout, child.stderr]) void read(output);
    const hasEnded = child.exited.then(() => this.#throwIfEnded());
    hasEnded.catch(() => {});
    await Promise.race([hasSaid.promise, hasEnded]);
  }

  async #writeConfiguration(snapshotMode: "initial" | "no_data"): Promise<void> {
    const properties = debeziumProperties({
      source: this.servers.source.connection(database),
      brokers: this.cluster.bootstrap,
      prefix: this.options.prefix,
      slot,
      publication: slot,
      snapshotMode,
      offsetsFile: join(this.directory, "offsets"),
      isPrompt: this.options.isPrompt ?? false,
    });
    await mkdir(join(this.directory, "config"), { recursive: true });
    await writeFile(join(this.directory, "config", "application.properties"), propertiesText(properties));
  }

  #throwIfEnded(): void {
    const code = this.#child?.exitCode ?? null;
    if (code !== null) throw new Error(`Debezium Server ended with ${code}:\n${this.#log.join("\n")}`);
  }

  /** What it has not stored is of no use to anybody. */
  async #kill(): Promise<void> {
    this.#child?.kill("SIGKILL");
    await this.#child?.exited;
    this.#child = null;
  }
}

async function* linesOf(output: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of output) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}
