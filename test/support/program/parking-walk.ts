// The built program with a webhook that parks, as people use it: by its commands and its API, from outside.

import { expect } from "bun:test";
import type { Parked, ParkedList } from "../../../src/connector/parked-message.ts";
import type { JsonBody } from "../../../src/demo/api-client.ts";
import { waitFor } from "../wait-for.ts";
import { type ReceiverScript, WebhookReceiver } from "../webhook/webhook-receiver.ts";
import { type BuiltStage, builtStage } from "./built-stage.ts";
import { memoryPeakWhile } from "./process-memory.ts";

/** Bytes. What a service may take that carries one connector, its embedded state included. */
const memoryLimit = 512 * 1024 * 1024;
const patience = { timeoutMs: 300_000, intervalMs: 200 };

export interface ParkingWalkOptions {
  /** SQL that makes the tables. */
  readonly source: string;
  readonly script: ReceiverScript;
  /** Keys of the webhook's configuration. */
  readonly webhook?: JsonBody;
}

export class ParkingWalk implements AsyncDisposable {
  readonly #owned = new AsyncDisposableStack();

  private constructor(
    readonly stage: BuiltStage,
    readonly receiver: WebhookReceiver,
  ) {
    this.#owned.use(stage);
    this.#owned.use(receiver);
  }

  /** Returns once connector `a` streams. */
  static async start({ source, script, webhook = {} }: ParkingWalkOptions): Promise<ParkingWalk> {
    await using building = new AsyncDisposableStack();
    const stage = building.use(await builtStage({ databases: ["a"], source }));
    const receiver = building.use(await WebhookReceiver.start({ script }));
    const connection = stage.server.connection("a");
    await stage.api.createConnector("a", {
      source: { postgres: { connection, replication_type: { logical_replication: {} } } },
      sink: { webhook: { url: receiver.url, path_template: "{schema}/{table}", ...webhook } },
    });
    const isStreaming = async () => (await stage.api.connector("a")).status.state.realtime !== undefined;
    await waitFor("the stream", isStreaming, patience);
    building.move();
    return new ParkingWalk(stage, receiver);
  }

  source<Row extends object>(sql: string): Promise<Row[]> {
    return this.stage.server.query<Row>(sql, "a");
  }

  /** A page of what is parked. */
  list(query = "limit=1000"): Promise<ParkedList> {
    return this.stage.api.call("GET", `/api/v1/connectors/a/parked?${query}`);
  }

  /** All pages. */
  async listAll(query = ""): Promise<readonly Parked[]> {
    const all: Parked[] = [];
    for (let after: string | null = "0"; after !== null; ) {
      const page: ParkedList = await this.list(`limit=1000&after=${after}${query}`);
      all.push(...page.parked);
      after = page.next;
    }
    return all;
  }

  /** Asks for a retry or a discard of what `selection` names; how many messages that were. */
  async ask(what: "retry" | "discard", selection: JsonBody = {}): Promise<number> {
    const path = `/api/v1/connectors/a/parked/${what}`;
    return (await this.stage.api.call<{ count: number }>("POST", path, selection)).count;
  }

  /** A command of the program. Throws with what it said if it fails. */
  async cli(...words: string[]): Promise<string> {
    const env = { ...process.env, MILLRACE_URL: this.stage.service.url };
    const child = Bun.spawn([this.stage.command, ...words], { env, stdout: "pipe", stderr: "pipe" });
    const [output, errors, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    if (code !== 0) throw new Error(`${words.join(" ")}: ${code} ${output}${errors}`);
    return output + errors;
  }

  untilParked(count: number): Promise<unknown> {
    return waitFor(
      `${count} parked messages`,
      async () => (await this.list("limit=1")).total === count,
      patience,
    );
  }

  async untilFull(): Promise<void> {
    const isFull = async () => (await this.stage.api.connector("a")).status.status.failed !== undefined;
    await waitFor("the run to stop", isFull, patience);
  }

  /** As people do who have mended the receiver of a full parking. */
  async empty(): Promise<void> {
    await this.cli("parked", "retry", "a");
    await this.cli("connectors", "start", "a");
    await this.untilCarried();
    await this.untilParked(0);
  }

  /** Waits until the source may forget all that was written to it: each row is delivered, or parked. */
  async untilCarried(): Promise<void> {
    const [written] = await this.source<{ lsn: string }>("select pg_current_wal_insert_lsn()::text as lsn");
    const isCarried = async () => {
      const sql = `select 1 from pg_replication_slots where confirmed_flush_lsn >= '${written!.lsn}'`;
      return (await this.source(sql)).length === 1;
    };
    await waitFor("all to be carried", isCarried, patience);
  }

  /** The work, in bounded memory of the service; seconds that it took. */
  async small(name: string, work: () => Promise<unknown>, limit = memoryLimit): Promise<number> {
    const startedMs = performance.now();
    const { resident } = await memoryPeakWhile(this.stage.service.pid ?? 0, name, work);
    expect(resident, `${name}: resident memory of the service`).toBeLessThan(limit);
    return (performance.now() - startedMs) / 1_000;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync();
  }
}
