// What the tests of the tabs "Parked" and "Find a row" stand on: a webhook whose receiver refuses two of three orders for ever, and the
// console before it.

import type { Parked, ParkedList } from "../../../src/connector/parked-message.ts";
import type { ApiClient } from "../../../src/demo/api-client.ts";
import { PostgresServer } from "../servers/postgres-server.ts";
import { waitFor } from "../wait-for.ts";
import { WebhookReceiver } from "../webhook/webhook-receiver.ts";
import type { OpenedPage } from "./chromium.ts";
import { ConsoleStage } from "./console-stage.ts";
import type { PageOptions } from "./look.ts";

export class ParkingStage implements AsyncDisposable {
  /** What the receiver refuses while a body has it. */
  refused: RegExp = /bad/;

  private constructor(
    readonly server: PostgresServer,
    readonly receiver: WebhookReceiver,
    readonly console: ConsoleStage,
    private readonly resources: AsyncDisposableStack,
  ) {
    receiver.script = ({ body }) =>
      this.refused.test(body)
        ? { kind: "answer", status: 422, body: '{"error":"no such item: bad"}' }
        : undefined;
  }

  static async start(): Promise<ParkingStage> {
    await using resources = new AsyncDisposableStack();
    const server = resources.use(await PostgresServer.start({ settings: { fsync: "off" } }));
    await server.createDatabase("shop");
    await server.query("create table orders (id int primary key, item text)", "shop");
    const receiver = resources.use(await WebhookReceiver.start());
    const console = resources.use(await ConsoleStage.start());
    return new ParkingStage(server, receiver, console, resources.move());
  }

  /** Parked: 7, what waits behind it, and 8. Delivered: 9. */
  async parkRows(id: string, api = this.console.api): Promise<void> {
    await this.createHook(api, id);
    await this.write(
      "insert into orders values (7, 'bad tea'), (8, 'bad milk'), (9, 'cake'); update orders set item = 'tea' where id = 7",
    );
    await waitFor("the parked messages", async () => (await this.parked(id, api)).length === 3);
  }

  write(sql: string) {
    return this.server.query(sql, "shop");
  }

  async parked(id: string, api = this.console.api): Promise<readonly Parked[]> {
    return (await api.call<ParkedList>("GET", `/api/v1/connectors/${id}/parked`)).parked;
  }

  open(id: string, tab: string, options?: PageOptions): Promise<OpenedPage> {
    return this.console.open(`/console/connectors/${id}/${tab}`, options);
  }

  private async createHook(api: ApiClient, id: string): Promise<void> {
    const connection = { ...this.server.connection("shop"), ssl_mode: "Prefer" };
    await api.createConnector(id, {
      source: { postgres: { connection, replication_type: { logical_replication: {} } } },
      sink: { webhook: { url: this.receiver.url, batch: { max_batch_size: 1 }, on_exhausted: { park: {} } } },
      limits: { receipts_hours: 1 },
    });
    await waitFor("the stream", async () => "realtime" in (await api.connector(id)).status.state, {
      timeoutMs: 60_000,
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.resources.disposeAsync();
  }
}
