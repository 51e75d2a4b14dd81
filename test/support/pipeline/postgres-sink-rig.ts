// A Postgres sink over a database of its own, one life of the service after the other, and no pipeline: for tests of the sink alone.

import type { PostgresConnection } from "../../../src/connector/config/connection.ts";
import type { PostgresSinkConfig } from "../../../src/connector/config/sink-config.ts";
import { PostgresSink } from "../../../src/sink/postgres/postgres-sink.ts";
import { postgresSink } from "../api/connector-config.ts";
import { eventsTo, nothingTold } from "../contract/bench.ts";
import { beginning } from "../contract/history.ts";
import type { PostgresServer } from "../servers/postgres-server.ts";

export interface PostgresSinkRigOptions {
  readonly config?: Partial<PostgresSinkConfig>;
  readonly connection?: Partial<PostgresConnection>;
  /** SQL to run in the database before the sink is opened. */
  readonly setup?: string;
  readonly term?: number;
}

export class PostgresSinkRig implements AsyncDisposable {
  readonly told = nothingTold();
  #ended = new AbortController();
  #sink: PostgresSink | null = null;

  private constructor(
    private readonly server: PostgresServer,
    readonly name: string,
    private readonly options: PostgresSinkRigOptions,
  ) {}

  /** A sink that has begun. */
  static async begin(
    server: PostgresServer,
    name: string,
    options: PostgresSinkRigOptions = {},
  ): Promise<PostgresSinkRig> {
    const rig = new PostgresSinkRig(server, name, options);
    await server.createDatabase(name);
    if (options.setup !== undefined) await rig.query(options.setup);
    await rig.open();
    await rig.sink.begin(beginning);
    return rig;
  }

  get sink(): PostgresSink {
    if (!this.#sink) throw new Error("not open");
    return this.#sink;
  }

  /** The same connector at another replica, which takes it over. This one is not told. */
  async takenOver(term: number): Promise<PostgresSinkRig> {
    const other = new PostgresSinkRig(this.server, this.name, { ...this.options, term });
    await other.open();
    return other;
  }

  /** The same connector under another role of the sink's server, not opened yet. */
  as(user: string): PostgresSinkRig {
    return new PostgresSinkRig(this.server, this.name, { ...this.options, connection: { user } });
  }

  async open(): Promise<void> {
    const { config, connection } = this.options;
    const settings = postgresSink(this.server.connection(this.name), config);
    this.#ended = new AbortController();
    this.#sink = new PostgresSink(
      { ...settings, connection: { ...settings.connection, ...connection } },
      {
        connectorId: this.name,
        owner: "test",
        signal: this.#ended.signal,
        makesCopies: true,
        term: this.options.term ?? null,
        checkpoints: { load: async () => null, save: async () => {} },
        events: eventsTo(this.told, () => {}),
      },
    );
    await this.sink.open();
  }

  query<Row extends object = Record<string, unknown>>(sql: string): Promise<Row[]> {
    return this.server.query<Row>(sql, this.name);
  }

  /** Tables that copies have made for themselves, and have left. */
  async left(): Promise<readonly string[]> {
    const rows = await this.query<{ name: string }>(
      `select relname as name from pg_class where relnamespace = 'millrace'::regnamespace and relkind = 'r'
        and relname ~ '^(copy|chunk|touched|seen|model)_' order by relname`,
    );
    return rows.map(({ name }) => name);
  }

  /** As the death of the process. */
  async die(): Promise<void> {
    this.#ended.abort(new Error("dead"));
    await this.#sink?.[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.die();
    await this.server.query(`drop database if exists ${this.name} with (force)`);
  }
}
