// A database, a receiver, and one life after the other of a connector between them.

import { expect } from "bun:test";
import type { PostgresSourceConfig } from "../../../src/connector/config/source-config.ts";
import type { WebhookSinkRequest } from "../../../src/connector/config/webhook-config.ts";
import type { ConnectorConfig, ConnectorRequest } from "../../../src/connector/connector.ts";
import { type CopyPace, defaultCopyPace } from "../../../src/pipeline/copy/copy-pace.ts";
import { parseRecord, type SinkRecord } from "../../../src/sink/delivery/record/sink-record.ts";
import type { PostgresServer } from "../servers/postgres-server.ts";
import { waitFor } from "../wait-for.ts";
import { WebhookLife } from "./webhook-life.ts";
import { WebhookReceiver } from "./webhook-receiver.ts";
import { RecordStore, webhookConnector } from "./webhook-rig.ts";

export interface StageOptions {
  readonly copyPace?: Partial<CopyPace>;
  readonly sink?: Partial<WebhookSinkRequest>;
  readonly source?: Partial<PostgresSourceConfig>;
  readonly limits?: ConnectorRequest["limits"];
}

/** Tables of a few hundred pages are copied in ranges. */
const pace: CopyPace = { ...defaultCopyPace, dividedFromBytes: 1, rangeBytes: 300_000, pointHeldMs: 60_000 };

export class WebhookStage implements AsyncDisposable {
  life!: WebhookLife;
  readonly store = new RecordStore();
  readonly #begun = { yes: false };

  private constructor(
    private readonly server: PostgresServer,
    readonly database: string,
    readonly receiver: WebhookReceiver,
    private connector: ConnectorConfig,
    private readonly copyPace: CopyPace,
    private readonly source: Partial<PostgresSourceConfig>,
  ) {}

  static async create(
    server: PostgresServer,
    database: string,
    sql: string,
    { copyPace, sink, source = {}, limits }: StageOptions = {},
  ): Promise<WebhookStage> {
    await server.createDatabase(database);
    await server.query(sql, database);
    const receiver = await WebhookReceiver.start();
    const batch = { max_batch_size: 50 };
    const connector = webhookConnector(receiver.url, { batch, ...sink }, limits ? { limits } : {});
    return new WebhookStage(server, database, receiver, connector, { ...pace, ...copyPace }, source);
  }

  /** Another life, of a connector that was changed. */
  async restart(sink: Partial<WebhookSinkRequest>): Promise<void> {
    this.connector = webhookConnector(this.receiver.url, sink);
    await this.start();
  }

  async start(): Promise<void> {
    const { connector, store, copyPace, source } = this;
    const settings = this.server.connection(this.database);
    this.life = await WebhookLife.start(settings, connector, store, this.#begun, source, copyPace);
  }

  sourceSession = () => this.server.connect(this.database);
  sql = <T extends object>(text: string) => this.server.query<T>(text, this.database);

  /** As it was saved last. */
  get record(): SinkRecord | null {
    const stored = this.store.record === null ? null : parseRecord(this.store.record);
    return stored?.kind === "begun" ? stored.record : null;
  }

  async untilRealtime(): Promise<void> {
    await waitFor("the stream", () => this.life.phase === "realtime", { timeoutMs: 30_000 });
  }

  /** Waits until the stream has passed all chunks, so that the record has none any more. */
  async untilChunksPassed(): Promise<void> {
    await waitFor("the stream to pass the chunks", () => this.record?.chunked.size === 0);
  }

  /** Waits until `held` is what table `m` has at the source. */
  async expectHeld(held: () => ReadonlyMap<unknown, object>): Promise<void> {
    const rows = await this.sql<{ row: { id: number } }>("select row_to_json(m) as row from m order by id");
    const wanted = rows.map(({ row }) => [row.id, row]);
    const inOrder = () => [...held()].toSorted(([a], [b]) => Number(a) - Number(b));
    const isHeld = () => Bun.deepEquals(inOrder(), wanted);
    await waitFor("the receiver to hold the source", isHeld, { timeoutMs: 30_000, intervalMs: 100 }).catch(
      () => {},
    );
    expect(this.life.failure).toBeNull();
    if (isHeld()) return;
    const found = new Map(inOrder());
    const wrong = wanted.filter(([id, row]) => !Bun.deepEquals(found.get(id), row)).map(([id]) => id);
    expect({ wrong, missing: wrong.filter((id) => !found.has(id)), rows: found.size }).toEqual({
      wrong: [],
      missing: [],
      rows: wanted.length,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.life.kill();
    await this.receiver[Symbol.asyncDispose]();
  }
}
