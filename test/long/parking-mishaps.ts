// A parking in the built program, while everything happens to it: receivers that refuse by key, by size or for a time, retries and discards,
// other batch sizes, a parking that is full, columns that are added, beginnings anew, kill -9 of the service and crashes of its state. Whatever
// was not discarded has arrived, and who takes rows by their version holds what the source has.

import { expect, setDefaultTimeout, test } from "bun:test";
import type { Parked, ParkedList } from "../../src/connector/parked-message.ts";
import {
  auditedConnector,
  auditedStage,
  random,
  type SentRow,
  writeUntil,
} from "../support/loads/audited-load.ts";
import { toldOnFailure } from "../support/loads/told-on-failure.ts";
import { heldByVersion, rowsOf } from "../support/oracles/webhook-oracles.ts";
import { waitFor } from "../support/wait-for.ts";
import { anyRefusal, choosy, ofIds, takesAll } from "../support/webhook/choosy-receiver.ts";
import { WebhookReceiver } from "../support/webhook/webhook-receiver.ts";

setDefaultTimeout(3_600_000);

const mishaps = Number(process.env.MILLRACE_PARKING_MISHAPS ?? 100);
const roomy = 100_000;
/** A row of `t` as a request has it. */
interface SentAs {
  readonly id: number;
  readonly n: number;
  readonly _sm_deleted: boolean;
}
const changeOf = ({ id, n, deleted }: SentRow) => `${id} ${n}${deleted ? " deleted" : ""}`;

test(`whatever was not discarded arrives, through ${mishaps} mishaps`, async () => {
  await using audited = await auditedStage();
  const { stage, stateServer } = audited;
  const { server, service, api } = stage;
  let refuses = ofIds([1, 7, 23]);
  const script = choosy((ids, body) => refuses(ids, body));
  await using receiver = await WebhookReceiver.start({ script });
  const park = (maxMessages: number) => ({ on_exhausted: { park: { max_messages: maxMessages } } });
  await auditedConnector(stage, { url: receiver.url, request_timeout_ms: 2_000, ...park(roomy) });

  const path = "/api/v1/connectors/a";
  const list = async () =>
    (await api.call<ParkedList>("GET", `${path}/parked?limit=1000`)).parked as readonly Parked[];
  const change = (webhook: object) => api.call("PATCH", path, { sink: { webhook } });
  const status = async () => (await api.connector("a")).status;
  const isStreaming = async () => (await status()).state.realtime !== undefined;
  /** What is asked of a service whose state may be away at that moment. */
  const attempted = (work: Promise<unknown>) => work.then(() => true).catch(() => false);

  const discarded = new Set<string>();
  const discardedIds = new Set<number>();
  const discardOne = async () => {
    const parked = await list();
    const one = parked[random(parked.length)];
    if (!one) return;
    const { body = "[]" } = await api.call<Parked>("GET", `${path}/parked/${one.id}?body=1`);
    // Counted before, as the answer may be lost.
    for (const { id, n, _sm_deleted } of [JSON.parse(body)].flat() as SentAs[]) {
      discarded.add(changeOf({ id, n, deleted: _sm_deleted }));
      discardedIds.add(id);
    }
    await api.call("POST", `${path}/parked/${one.id}/discard`);
  };
  let columns = 0;
  let beganAt = 0;
  const beginAnew = async () => {
    await api.command("a", "ReInitialize");
    // What is refused of the copy may fill the parking.
    const streams = async () => (await goesOn()) && (await isStreaming());
    await waitFor("the stream", streams, { timeoutMs: 120_000 });
    // Changes before that may be in the copy alone.
    const [{ n }] = (await server.query("select nextval('audit.n')::int as n", "a")) as [{ n: number }];
    beganAt = n;
  };
  const counts = new Map<string, number>();
  const mishap = async (kill: number) => {
    const name = ["retry", "discard", "size", "full", "column", "anew", "service", "state", "both"][
      kill % 20 === 19 ? 5 : [0, 0, 1, 1, 2, 3, 4, 6, 6, 7, 8][random(11)]!
    ]!;
    counts.set(name, (counts.get(name) ?? 0) + 1);
    switch (name) {
      case "retry":
        return await attempted(api.call("POST", `${path}/parked/retry`, {}));
      case "discard":
        return await attempted(discardOne());
      case "size":
        return await attempted(change({ batch: { max_batch_size: [1, 5, 20, 100][random(4)] } }));
      case "full":
        return await attempted(change(park(1 + random(5))));
      case "column":
        return await server.query(`alter table t add column c${columns++} int default ${columns}`, "a");
      case "anew":
        return await beginAnew();
      default:
        if (name !== "state") await service.kill();
        if (name !== "service") {
          await stateServer.stop("immediate");
          await stateServer.launch();
        }
        if (name !== "state") await service.launch();
    }
  };
  const goesOn = async () => {
    const { status: now } = await status();
    if (!now.failed) return true;
    expect(now.failed.reason).toContain("Parking is full");
    await change(park(roomy));
    await api.call("POST", `${path}/parked/retry`, {});
    await api.command("a", "Start");
    return false;
  };

  const over = new AbortController();
  await using client = await server.connect("a");
  const writing = writeUntil(over.signal, client, 40);
  try {
    for (let kill = 0; kill < mishaps; kill++) {
      const { length } = receiver.requests;
      const comes = async () => {
        if (receiver.requests.length > length) return true;
        await goesOn();
        return false;
      };
      const waiting = waitFor("a request", comes, { timeoutMs: 120_000, intervalMs: 50 }).then(() => {});
      await toldOnFailure(waiting, stage, stateServer, "a");
      refuses = anyRefusal();
      await mishap(kill);
      await Bun.sleep(random(500));
    }
  } finally {
    over.abort();
    await writing;
  }
  console.log(Object.fromEntries(counts), `${discarded.size} changes discarded`);
  refuses = takesAll;
  await waitFor("the parking to be roomy", async () => (await attempted(change(park(roomy)))) || null, {
    timeoutMs: 60_000,
  });
  const wanted = (await server.query<SentRow>("select * from audit.sent", "a")).filter(
    ({ n, ...row }) => n > beganAt && !discarded.has(changeOf({ n, ...row })),
  );
  const arrived = () =>
    new Set(
      (rowsOf(receiver, "t") as unknown as readonly SentAs[]).map(({ id, n, _sm_deleted }) =>
        changeOf({ id, n, deleted: _sm_deleted }),
      ),
    );
  const missing = () => {
    const there = arrived();
    return wanted.map(changeOf).filter((each) => !there.has(each));
  };
  const isThere = async () => {
    if (!(await goesOn())) return false;
    const left = await list();
    if (left.length > 0 && left.every(({ state }) => state === "Parked"))
      await api.call("POST", `${path}/parked/retry`, {});
    return left.length === 0 && missing().length === 0;
  };
  const patience = { timeoutMs: 120_000 + mishaps * 3_000, intervalMs: 300 };
  await toldOnFailure(
    waitFor("all changes", isThere, patience).then(() => {}),
    stage,
    stateServer,
    "a",
  ).catch((error) => {
    // Otherwise rows are lost: it is told below which.
    if (missing().length === 0) throw error;
  });
  expect(missing()).toEqual([]);
  const held = heldByVersion(receiver, "t");
  const rows = await server.query<SentRow>("select id, n from t", "a");
  const differing = rows.filter(({ id, n }) => !discardedIds.has(id) && held.get(id)?.n !== n);
  expect(differing).toEqual([]);
});
