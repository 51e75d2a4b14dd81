// A real Postgres server on the bench of the sinks' contract. What the sink says to it goes through a proxy, which can stall, and which
// breaks every connection where the service is to die. A bench is a schema and a connector's id: a database for each takes its time.

import type { Client } from "pg";
import { createPostgresSink } from "../../../src/sink/postgres/create-postgres-sink.ts";
import type { CheckpointStore, Sink } from "../../../src/sink/sink.ts";
import { postgresSink } from "../api/connector-config.ts";
import { PostgresServer } from "../servers/postgres-server.ts";
import { TcpProxy } from "../servers/tcp-proxy.ts";
import { waitFor } from "../wait-for.ts";
import {
  eventsTo,
  type LifeOptions,
  nothingTold,
  refusedValue,
  type SinkBench,
  type SinkGround,
  type SinkKind,
  type SinkLife,
} from "./bench.ts";
import type { ContractRow, TableName } from "./history.ts";

export const postgresKind: SinkKind = {
  name: "Postgres",
  isTransactional: true,
  removesRows: true,
  takesRanges: true,
  asksForRows: true,
  async start(): Promise<SinkGround> {
    const server = await PostgresServer.start({ settings: { fsync: "off" } });
    let count = 0;
    return {
      bench: () => PostgresBench.create(server, `contract_${++count}`),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    };
  },
};

const noStore: CheckpointStore = {
  load: () => Promise.reject(new Error("a Postgres sink keeps its checkpoint itself")),
  save: () => Promise.reject(new Error("a Postgres sink keeps its checkpoint itself")),
};

class PostgresBench implements SinkBench {
  /** Holds locks while the target is busy. */
  #holder: (Client & AsyncDisposable) | null = null;

  private constructor(
    private readonly server: PostgresServer,
    /** The schema's, and the connector's. */
    private readonly name: string,
    private readonly proxy: TcpProxy,
    private readonly reader: Client & AsyncDisposable,
  ) {}

  static async create(server: PostgresServer, name: string): Promise<PostgresBench> {
    const proxy = await TcpProxy.start(server.port);
    return new PostgresBench(server, name, proxy, await server.connect());
  }

  async live(options: LifeOptions = {}): Promise<SinkLife> {
    const settings = { ...this.server.connection(), port: this.proxy.port };
    const config = postgresSink(settings, { target_schema: this.name });
    return new PostgresLife(this.name, config, this.proxy, options);
  }

  async rows(table: TableName): Promise<readonly ContractRow[]> {
    const name = `${this.name}.${table}`;
    const there = await this.reader.query("select to_regclass($1) is not null as yes", [name]);
    if (!there.rows[0].yes) return [];
    return (await this.reader.query(`select id, v from ${name} order by id, v collate "C"`)).rows;
  }

  /** It cannot be told anything twice: the checkpoint moves with the rows. */
  contradictions(): readonly string[] {
    return [];
  }

  async keepBusy(): Promise<void> {
    const tables = `${this.name}.accounts, ${this.name}.entries`;
    this.#holder = await this.server.connect();
    await this.#holder.query(`begin; lock table ${tables} in access exclusive mode`);
  }

  async metBusy(): Promise<void> {
    const isWaiting = async () =>
      (await this.reader.query("select from pg_locks where not granted")).rowCount !== 0;
    await waitFor("the sink to wait for a lock", isWaiting);
  }

  silence(): void {
    this.proxy.stall();
  }

  async answer(): Promise<void> {
    this.proxy.resume();
    await this.#holder?.[Symbol.asyncDispose]();
    this.#holder = null;
  }

  async refuse(isRefused: boolean): Promise<void> {
    const change = isRefused
      ? `add constraint refusal check (v <> '${refusedValue}')`
      : "drop constraint refusal";
    await this.reader.query(`alter table ${this.name}.entries ${change}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.answer();
    await this.reader[Symbol.asyncDispose]();
    await this.proxy[Symbol.asyncDispose]();
  }
}

class PostgresLife implements SinkLife {
  readonly told = nothingTold();
  readonly sink: Sink;
  isDead = false;
  readonly #ended = new AbortController();

  constructor(
    connectorId: string,
    config: ReturnType<typeof postgresSink>,
    private readonly proxy: TcpProxy,
    { durable }: LifeOptions,
  ) {
    const { signal } = this.#ended;
    const events = eventsTo(this.told, (checkpoint) => durable?.(checkpoint, this));
    const context = {
      connectorId,
      owner: "contract",
      signal,
      checkpoints: noStore,
      makesCopies: true,
      events,
    };
    this.sink = createPostgresSink(config, context, { SourceNaming: {} });
  }

  stop(reason: Error): void {
    this.#ended.abort(reason);
  }

  dieIn(steps: number): void {
    this.proxy.cutAt(steps, steps % 2 === 0, () => this.#die());
  }

  async kill(): Promise<void> {
    if (!this.isDead) this.proxy.cut();
    this.#die();
    await this.sink[Symbol.asyncDispose]();
  }

  #die(): void {
    this.isDead = true;
    this.#ended.abort(new Error("killed"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sink[Symbol.asyncDispose]();
    this.proxy.cutAt(Number.POSITIVE_INFINITY, true, () => {});
  }
}
