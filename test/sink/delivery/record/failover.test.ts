// The source's server dies and a standby takes over that lacks what was written last. Some of that was delivered while an earlier row was
// still tried, so that the checkpoint does not tell.

import { expect, setDefaultTimeout, test } from "bun:test";
import type { WebhookSinkRequest } from "../../../../src/connector/config/webhook-config.ts";
import type { MillraceError } from "../../../../src/errors/millrace-error.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { keepData, promotable, promote, setBack } from "../../../support/servers/set-back.ts";
import { waitFor } from "../../../support/wait-for.ts";
import { WebhookLife } from "../../../support/webhook/webhook-life.ts";
import { WebhookReceiver } from "../../../support/webhook/webhook-receiver.ts";
import { RecordStore, webhookConnector } from "../../../support/webhook/webhook-rig.ts";

// The server is started several times.
setDefaultTimeout(60_000);

const isStuck = (body: string) => body.includes('"id":1,');

/** A connector to a receiver that refuses the first row and takes all others. */
class Followed implements AsyncDisposable {
  life!: WebhookLife;
  readonly #store = new RecordStore();
  readonly #begun = { yes: false };

  private constructor(
    readonly database: string,
    readonly receiver: WebhookReceiver,
    private readonly server: PostgresServer,
    private readonly sink: Partial<WebhookSinkRequest>,
  ) {}

  static async create(
    server: PostgresServer,
    database: string,
    sink: Partial<WebhookSinkRequest>,
  ): Promise<Followed> {
    await server.createDatabase(database);
    await server.query("create table m (id int primary key, v text)", database);
    const script = ({ body }: { body: string }) => (isStuck(body) ? 503 : 200);
    const followed = new Followed(database, await WebhookReceiver.start({ script }), server, sink);
    await followed.start();
    await waitFor("the stream", () => followed.life.phase === "realtime");
    return followed;
  }

  async start(): Promise<void> {
    const { server, database, receiver, sink } = this;
    const source = server.connection(database);
    const connector = webhookConnector(receiver.url, sink);
    this.life = await WebhookLife.start(source, connector, this.#store, this.#begun);
  }

  /** Writes the row that is refused. */
  async beStuck(): Promise<void> {
    await this.server.query("insert into m values (1, '')", this.database);
    await waitFor("the refused row", () => this.receiver.requests.some(({ body }) => isStuck(body)));
  }

  /** Writes others. */
  async deliver(): Promise<void> {
    await this.server.query("insert into m select g, '' from generate_series(2, 10) g", this.database);
    await waitFor("the others", () => this.has(10));
  }

  has(id: number): boolean {
    return WebhookReceiver.rows(this.receiver.delivered).some((row) => row.id === id);
  }

  async failure(): Promise<MillraceError> {
    await waitFor("an end", () => this.life.failure ?? this.life.phase === "realtime");
    return this.life.failure as MillraceError;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.life.kill();
    await this.receiver[Symbol.asyncDispose]();
  }
}

test("a run is refused when rows beyond the checkpoint were sent that the source lacks, and goes on when it has them", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off", ...promotable } });
  const many = { batch: { max_batch_size: 50 } };
  const each = { batch: { max_batch_size: 1 } };
  await using complete = await Followed.create(server, "complete", many);
  await using lackingMany = await Followed.create(server, "lacking_many", many);
  await using lackingEach = await Followed.create(server, "lacking_each", each);
  const lacking = [lackingMany, lackingEach];
  const all = [complete, ...lacking];
  for (const followed of all) await followed.beStuck();
  await complete.deliver();
  for (const { life } of all) await life.kill();
  await server.stop();
  const before = await keepData(server);

  await server.launch();
  for (const followed of lacking) {
    await followed.start();
    await followed.deliver();
  }
  await server.stop("immediate");
  for (const { life } of lacking) await life.ended();
  await setBack(server, before);
  await promote(server);
  for (const followed of all) await followed.start();
  for (const followed of lacking) {
    const failure = await followed.failure();
    expect(failure).toMatchObject({ code: "source_behind" });
    expect(failure.message).toContain("up to which the sink may have changes");
    expect(failure.message).toContain("send the command ReInitialize");
    expect(failure.message).not.toContain("Resume");
  }
  expect(await complete.failure()).toBeNull();
  await server.query("insert into m values (11, '')", complete.database);
  await waitFor("a row on the new timeline", () => complete.has(11));
});
