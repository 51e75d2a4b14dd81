// A webhook sink that parks, through the real worker, over a parking in memory that outlives it; and a receiver that refuses what a test says.

import type { Checkpoint } from "../../../src/change/checkpoint.ts";
import { lsn } from "../../../src/change/lsn.ts";
import type { WebhookSinkRequest } from "../../../src/connector/config/webhook-config.ts";
import type { ConnectorRequest } from "../../../src/connector/connector.ts";
import { batches, type FixtureTransaction, relation } from "../rows/batch-fixture.ts";
import { type ReceiverScript, WebhookReceiver } from "./webhook-receiver.ts";
import { RecordStore, WebhookRig, webhookConnector } from "./webhook-rig.ts";

export const users = relation("users", [
  ["id", 20, "bigint"],
  ["name", 25, "text"],
]);
export const log = relation("log", [["line", 25, "text"]], {
  key: [],
  replicaIdentity: "nothing",
  id: 16_401,
});

const start: Checkpoint = { resumeLsn: lsn(0x1000000n), partial: null, lastVersion: 1n };
const park = { park: { max_messages: 100 } };

export const insert = (id: number, name = `u${id}`) =>
  ({ kind: "insert", relation: users, after: [String(id), name] }) as const;
export const update = (id: number, name: string) =>
  ({ kind: "update", relation: users, after: [String(id), name] }) as const;

/** Refuses requests with a row that holds this. */
export const refuses =
  (word: string, status = 422): ReceiverScript =>
  ({ body }) =>
    body.includes(word)
      ? { kind: "answer", status, body: `no ${word}`, headers: { "content-type": "text/plain" } }
      : 200;

export class ParkingBench implements AsyncDisposable {
  readonly store = new RecordStore();
  readonly warnings: (string | null)[] = [];
  failure: { readonly code: string; readonly message: string } | null = null;
  readonly #owned = new AsyncDisposableStack();

  private constructor(readonly receiver: WebhookReceiver) {
    this.#owned.use(receiver);
  }

  static async start(script: ReceiverScript): Promise<ParkingBench> {
    return new ParkingBench(await WebhookReceiver.start({ script }));
  }

  /** One life of the worker. */
  async life(change: Partial<WebhookSinkRequest> = {}, request: Partial<ConnectorRequest> = {}) {
    const webhook = { on_exhausted: park, retry: { initial_backoff_ms: 1, max_backoff_ms: 2 }, ...change };
    const rig = this.#owned.use(
      await WebhookRig.start(webhookConnector(this.receiver.url, webhook, request), this.store),
    );
    const sink = rig.sink({
      warning: (_, reason) => this.warnings.push(reason),
      failed: (error) => {
        this.failure = error;
      },
    });
    const checkpoint = await sink.open();
    if (!checkpoint) await sink.begin(start);
    const write = async (transactions: readonly FixtureTransaction[]) => {
      const from = checkpoint ?? start;
      for (const batch of batches(transactions, { from })) await sink.write(batch);
    };
    return { rig, sink, write };
  }

  get rows(): unknown[] {
    return WebhookReceiver.rows(this.receiver.deduplicated).map(
      ({ id, name, line }) => line ?? `${id} ${name}`,
    );
  }

  get parked() {
    return this.store.parking.parked;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned.disposeAsync();
  }
}
