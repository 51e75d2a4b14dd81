// Parking in the built program, under kill -9 of the service and crashes of its state, while a receiver refuses by key, by size or for a time:
// what is refused waits with all that follows it, the others go on, and after a retry each change has arrived exactly once by its
// Idempotency-Key, in the order of its key.

import { expect, setDefaultTimeout, test } from "bun:test";
import type { ParkedList } from "../../src/connector/parked-message.ts";
import {
  auditedConnector,
  auditedStage,
  inSourceOrder,
  random,
  type SentRow,
  writeUntil,
} from "../support/loads/audited-load.ts";
import { toldOnFailure } from "../support/loads/told-on-failure.ts";
import { keysThatWentBack, rowsOf } from "../support/oracles/webhook-oracles.ts";
import { builtStage } from "../support/program/built-stage.ts";
import { waitFor } from "../support/wait-for.ts";
import { anyRefusal, choosy, ofIds, takesAll } from "../support/webhook/choosy-receiver.ts";
import { type ReceiverScript, WebhookReceiver } from "../support/webhook/webhook-receiver.ts";

// Starting servers takes its time on a busy machine.
setDefaultTimeout(240_000);

/** `test/long/parking.ts` has 100. */
const kills = Number(process.env.MILLRACE_PARKING_KILLS ?? 3);
const limitMs = 240_000 + kills * 20_000;

test(
  `what is refused is parked, and arrives after a retry, under ${kills} kill -9`,
  async () => {
    await using audited = await auditedStage();
    const { stage, stateServer } = audited;
    const { server, service, api } = stage;
    let refuses = ofIds([1, 7, 23]);
    const script = choosy((ids, body) => refuses(ids, body));
    await using receiver = await WebhookReceiver.start({ script });
    await auditedConnector(stage, {
      url: receiver.url,
      request_timeout_ms: 2_000,
      on_exhausted: { park: { max_messages: 100_000 } },
    });
    const call = async (method: string, path: string, body?: object) => {
      const response = await fetch(`${service.url}/api/v1/connectors/a/parked${path}`, {
        method,
        ...(body ? { body: JSON.stringify(body), headers: { "content-type": "application/json" } } : {}),
      });
      if (!response.ok) throw new Error(await response.text());
      return (await response.json()) as unknown;
    };
    const parked = async () => ((await call("GET", "?limit=1000")) as ParkedList).parked;

    const over = new AbortController();
    await using client = await server.connect("a");
    const writing = writeUntil(over.signal, client, 40);
    try {
      await waitFor("a parked row", async () => (await parked()).length > 0, { timeoutMs: 60_000 });
      const warning = async () => (await api.connector("a")).status.status.warning?.reason ?? "";
      await waitFor("the warning", async () => (await warning()).includes("parked"), { timeoutMs: 60_000 });
      for (let kill = 0; kill < kills; kill++) {
        // Rows of new keys wait behind nothing: where nothing comes, the run stands.
        const { length } = receiver.requests;
        const comes = receiver.until(() => receiver.requests.length > length, 60_000);
        await toldOnFailure(comes, stage, stateServer, "a");
        refuses = anyRefusal();
        if (random(2) === 0) await call("POST", "/retry", {});
        await Bun.sleep(random(700));
        const dies = random(3);
        if (dies !== 0) await service.kill();
        if (dies !== 1) {
          await stateServer.stop("immediate");
          await stateServer.launch();
        }
        if (dies !== 0) await service.launch();
      }
    } finally {
      over.abort();
      await writing;
    }
    refuses = takesAll;
    const emptied = async () => {
      const left = await parked();
      // Not while some are asked for: asking writes all of them anew, and would hold up those that are sent.
      if (left.length > 0 && left.every(({ state }) => state === "Parked")) await call("POST", "/retry", {});
      return left.length === 0;
    };
    const wanted = await server.query<SentRow>("select * from audit.sent", "a");
    const sent = () =>
      rowsOf(receiver, "t").map(({ id, n, _sm_deleted }) => ({ id, n, deleted: _sm_deleted }) as SentRow);
    const isThere = async () => (await emptied()) && sent().length >= wanted.length;
    // Short lives do not get far: nearly all of the load may be left.
    const patience = { timeoutMs: 120_000 + kills * 3_000, intervalMs: 300 };
    const comes = waitFor("all changes", isThere, patience).then(() => {});
    await toldOnFailure(comes, stage, stateServer, "a").catch(async (error) => {
      // Otherwise rows are lost: it is told below which.
      if ((await parked()).length > 0) throw error;
    });
    expect(inSourceOrder(sent())).toEqual(inSourceOrder(wanted));
    expect(keysThatWentBack(rowsOf(receiver, "t"))).toEqual([]);
    expect(await parked()).toEqual([]);
  },
  limitMs,
);

test("metrics, alert, commands and a record of who discarded; beginning again takes what is parked away", async () => {
  await using alerts = await WebhookReceiver.start();
  const refusing: ReceiverScript = ({ body }) =>
    body.includes('"id":13,') ? { kind: "answer", status: 400, body: "no token s3cr3t-token" } : 200;
  await using receiver = await WebhookReceiver.start({ script: refusing });
  const credentials = { MILLRACE_USERNAME: "ann", MILLRACE_PASSWORD: "her-password" };
  await using stage = await builtStage({
    databases: ["a"],
    source: "create table t (id int primary key, n int not null)",
    environment: () => ({ ...credentials, MILLRACE_ALERT_URL: alerts.url }),
  });
  const { command, server, service } = stage;
  const authorization = `Basic ${Buffer.from("ann:her-password").toString("base64")}`;
  const call = async (method: string, path: string, body?: object) => {
    const response = await fetch(`${service.url}${path}`, {
      method,
      headers: { authorization, "content-type": "application/json" },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    return { status: response.status, text: await response.text() };
  };
  const cli = async (...words: string[]) => {
    const env = { ...process.env, ...credentials, MILLRACE_URL: service.url };
    const child = Bun.spawn([command, "parked", ...words], { env, stdout: "pipe", stderr: "pipe" });
    const [output, errors] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    return output + errors;
  };
  const webhook = {
    url: receiver.url,
    auth: { bearer: { token: "s3cr3t-token" } },
    on_exhausted: { park: { retry_every_minutes: 600 } },
  };
  const postgres = { connection: server.connection("a"), replication_type: { logical_replication: {} } };
  const made = await call("POST", "/api/v1/connectors/a", {
    id: "a",
    source: { postgres },
    sink: { webhook },
  });
  expect(made.status).toBe(201);
  const isStreaming = async () => (await call("GET", "/api/v1/connectors/a")).text.includes('"realtime"');
  await waitFor("the stream", isStreaming, { timeoutMs: 60_000 });
  await server.query("insert into t select g, g from generate_series(1, 20) g", "a");
  const parked = async () =>
    (JSON.parse((await call("GET", "/api/v1/connectors/a/parked")).text) as ParkedList).parked;
  await waitFor("the parked row", async () => (await parked()).length === 1, { timeoutMs: 30_000 });
  await server.query("update t set n = 100 where id in (13, 14)", "a");
  await waitFor("the row behind it", async () => (await parked()).length === 2, { timeoutMs: 30_000 });
  const [first, second] = await parked();
  expect(first).toMatchObject({
    keys: [{ id: 13 }],
    cause: "refused",
    attempts: [{ status: 400, answer: "no token ***" }],
  });
  expect(second).toMatchObject({ keys: [{ id: 13 }], cause: "behind", attempts: [] });
  expect((await call("GET", "/metrics")).text).toContain('millrace_parked_messages{connector="a"} 2');
  const told = () => alerts.requests.map(({ body }) => JSON.parse(body) as { type: string; data: object });
  await alerts.until(() => told().some(({ type }) => type === "message.parked"), 30_000);
  expect(await cli("list", "a")).toContain('{"id":13}');
  expect(await cli("show", "a", first!.id, "--body")).toContain('[{"id":13,"n":13,');
  expect(await cli("discard", "a")).toContain("--all");

  // Also while it is stopped; what waited behind is sent when it runs.
  await call("POST", "/api/v1/connector/command/a", { command: "Stop" });
  expect(await cli("discard", "a", first!.id)).toContain("1 message discarded.");
  expect(await cli("list", "a", "--discarded", "--json")).toContain('"discarded_by": "ann"');
  receiver.script = () => 200;
  await call("POST", "/api/v1/connector/command/a", { command: "Start" });
  await waitFor("the parking to be empty", async () => (await parked()).length === 0, { timeoutMs: 30_000 });
  const bodies = receiver.delivered.map(({ body }) => body).filter((body) => body.includes('"id":13,'));
  expect(bodies.map((body) => (JSON.parse(body) as { n: number }[])[0]!.n)).toEqual([100]);

  receiver.script = refusing;
  await server.query("update t set n = 101 where id = 13", "a");
  await waitFor("the parked row", async () => (await parked()).length === 1, { timeoutMs: 30_000 });
  receiver.script = () => 200;
  await call("POST", "/api/v1/connector/command/a", { command: "ReInitialize" });
  await waitFor("nothing parked", async () => (await parked()).length === 0, { timeoutMs: 30_000 });
});
