// What is kept of a table's changes while its first copy is made beside the stream: it is applied once, whatever goes wrong meanwhile.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { TupleForm } from "../../../../src/change/change-batch.ts";
import { lsn } from "../../../../src/change/lsn.ts";
import type { Relation, TableShape } from "../../../../src/change/relation.ts";
import { PostgresSink } from "../../../../src/sink/postgres/postgres-sink.ts";
import { sinkPace } from "../../../../src/sink/postgres/sink-pace.ts";
import type { CopyBeside, CopyRequest } from "../../../../src/sink/sink.ts";
import { batches, type FixtureChange, relation, transaction } from "../../../support/batch-fixture.ts";
import { postgresSink } from "../../../support/connector-config.ts";
import { PostgresServer } from "../../../support/postgres-server.ts";
import { TcpProxy } from "../../../support/tcp-proxy.ts";

let server: PostgresServer;
let proxy: TcpProxy;
beforeAll(async () => {
  server = await PostgresServer.start({ settings: { fsync: "off" } });
  proxy = await TcpProxy.start(server.port);
});
afterAll(async () => {
  await proxy[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

const never = new AbortController().signal;

class Rig implements AsyncDisposable {
  #ended = new AbortController();
  #sink: PostgresSink | null = null;
  #committed = 0;
  readonly kept: TableShape;
  readonly other: TableShape;
  keptPieceMs = sinkPace.keptPieceMs;

  constructor(
    readonly name: string,
    hasKey = true,
  ) {
    this.kept = shapeOf("kept", 16_400, hasKey);
    this.other = shapeOf("other", 16_500, true);
  }

  /** A sink that the tables are known to; `kept` waits for its first copy. */
  static async begin(name: string, hasKey = true, keptPieceMs = sinkPace.keptPieceMs): Promise<Rig> {
    const rig = new Rig(name, hasKey);
    rig.keptPieceMs = keptPieceMs;
    await server.createDatabase(name);
    await rig.open();
    await rig.sink.begin({ resumeLsn: lsn(1n), partial: null, lastVersion: 0n });
    await rig.prepare();
    await rig.sink.copyTable(rig.request(rig.other, []));
    return rig;
  }

  async open(): Promise<void> {
    const connection = { ...server.connection(this.name), port: proxy.port };
    this.#ended = new AbortController();
    this.#sink = new PostgresSink(
      postgresSink(connection),
      {
        ...{ connectorId: this.name, owner: "test", signal: this.#ended.signal, makesCopies: true },
        checkpoints: { load: async () => null, save: async () => {} },
        events: {
          ...{ durable() {}, warning() {}, setAside() {}, mended() {}, awaits() {}, retrying() {} },
          failed(error) {
            throw error;
          },
        },
      },
      undefined,
      { ...sinkPace, keptPieceMs: this.keptPieceMs },
    );
    await this.sink.open();
  }

  get sink(): PostgresSink {
    if (!this.#sink) throw new Error("not open");
    return this.#sink;
  }

  prepare() {
    return this.sink.prepare([this.other, this.kept], ["text"]);
  }

  async copying(): Promise<CopyBeside> {
    const copy = await this.sink.beginBeside(this.kept, "initial", never);
    if (!copy) throw new Error("not beside");
    return copy;
  }

  request(table: TableShape, rows: readonly number[]): CopyRequest {
    async function* chunks() {
      yield Buffer.from(rows.map((row) => `${row}\n`).join(""));
    }
    return {
      ...{ table, form: "text", mode: "initial", chunks: chunks(), rowsRead: () => rows.length },
      ...{ lsn: zeroPoint, timeUs: 0n, progress() {} },
    };
  }

  /** Transactions, in pieces of `perBatch` changes. */
  async write(
    transactions: readonly (readonly FixtureChange[])[],
    { perBatch = 100, form = "text" }: { perBatch?: number; form?: TupleForm } = {},
  ): Promise<void> {
    const numbered = transactions.map((changes) => transaction(++this.#committed, changes));
    for (const batch of batches(numbered, { perBatch })) await this.sink.write({ ...batch, form });
  }

  insert(table: TableShape, id: number): FixtureChange {
    return { kind: "insert", relation: table.relation, after: [String(id)] };
  }

  query(sql: string) {
    return server.query(sql, this.name);
  }

  /** As the death of the process. */
  async die(): Promise<void> {
    this.#ended.abort(new Error("dead"));
    await this.#sink?.[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.die();
    await server.query(`drop database ${this.name} with (force)`);
  }
}

/** Behind the beginning, before every transaction. */
const zeroPoint = lsn(2n);

function shapeOf(name: string, id: number, hasKey: boolean): TableShape {
  const made = relation(name, [["id", 23, "integer"]], { id, key: hasKey ? [0] : [] });
  const asText: Relation = {
    ...made,
    columns: made.columns.map((each) => ({ ...each, binaryLayout: null })),
  };
  return {
    ...{ relation: asText, primaryKey: hasKey ? ["id"] : [], notNull: hasKey ? ["id"] : [] },
    ...{ isPartitioned: false, estimatedRows: 0, estimatedBytes: 0, storage: "1" },
  };
}

async function settle(copy: CopyBeside): Promise<void> {
  while ((await copy.settle()).isMore) {}
}

test("a transaction in pieces, of which the last has nothing of the table, is committed", async () => {
  await using rig = await Rig.begin("heldpieces");
  const copy = await rig.copying();
  const ofBoth = [rig.insert(rig.kept, 2), rig.insert(rig.kept, 3), rig.insert(rig.other, 1)];
  await rig.write([ofBoth], { perBatch: 2 });
  await copy.take(rig.request(rig.kept, [1]));
  await copy.compare();
  await settle(copy);
  expect(await rig.query("select id from kept order by id")).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }]);
  expect(await rig.query("select from pg_stat_activity where state ~ 'in transaction'")).toEqual([]);
});

test("what is refused of it is not committed in part with the next batch", async () => {
  await using rig = await Rig.begin("heldrefused", false);
  const copy = await rig.copying();
  await rig.write([[rig.insert(rig.kept, 2)], [rig.insert(rig.kept, 3)]]);
  await copy.take(rig.request(rig.kept, [1]));
  await copy.compare();
  await rig.query("alter table kept add check (id < 3)");
  await expect(settle(copy)).rejects.toThrow();
  await rig.write([[rig.insert(rig.other, 1)]]);
  expect(await rig.query("select id from kept")).toEqual([{ id: 1 }]);
  await rig.query("alter table kept drop constraint kept_id_check");
  await rig.die();
  await rig.open();
  await rig.prepare();
  expect(await rig.query("select id from kept order by id")).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }]);
});

test("what came as bytes that the table takes no longer is copied, and batches go on", async () => {
  await using rig = await Rig.begin("heldbytes");
  const copy = await rig.copying();
  await rig.write([[rig.insert(rig.kept, 2)]], { form: "binary" });
  await copy.take(rig.request(rig.kept, [1]));
  await copy.compare();
  await rig.die();
  await rig.open();
  const { missing } = await rig.prepare();
  expect(missing).toEqual([rig.kept]);
  await rig.write([[rig.insert(rig.other, 1)]]);
  expect(await rig.query("select id from other")).toEqual([{ id: 1 }]);
});

test("a range whose COMMIT had no reply is there once", async () => {
  await using rig = await Rig.begin("heldlost");
  const copy = await rig.copying();
  expect(await copy.divide()).toMatchObject({ ranges: [] });
  const range = (from: number, to: number | null, rows: readonly number[]) => ({
    ...rig.request(rig.kept, rows),
    part: { kind: "range", range: { from, to } } as const,
  });
  await copy.take(range(0, 1, [1]));
  const lost = proxy.loseReply("commit", "COMMIT");
  await expect(copy.take(range(1, null, [2]))).rejects.toThrow();
  await lost;
  await copy[Symbol.asyncDispose]();
  const { missing } = await rig.prepare();
  expect(missing.map(({ relation: { name } }) => name)).toEqual(["kept"]);
  const begun = await rig.sink.beginCopy(rig.kept, true);
  expect(begun?.ranges).toEqual([
    expect.objectContaining({ from: 0, to: 1 }),
    expect.objectContaining({ from: 1, to: null }),
  ]);
  await rig.sink.endCopy(rig.kept);
  expect(await rig.query("select id from kept order by id")).toEqual([{ id: 1 }, { id: 2 }]);
});

test("what is kept comes to an end under a load that has none", async () => {
  await using rig = await Rig.begin("heldload", true, 0);
  const copy = await rig.copying();
  let id = 1;
  const load = () => rig.write([[rig.insert(rig.kept, ++id)]]);
  for (let i = 0; i < 4; i++) await load();
  await copy.take(rig.request(rig.kept, [1]));
  await copy.compare();
  let turns = 1;
  for (; turns < 20 && (await copy.settle()).isMore; turns++) await load();
  expect(turns).toBeLessThan(10);
  await load();
  expect(await rig.query("select count(*)::int as rows from kept")).toEqual([{ rows: id }]);
});
