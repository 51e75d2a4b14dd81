// Comparisons for long: many rounds without a damage under load and kill -9, of which none may tell a difference; and ten thousand damages under
// load, all of which are to be found and mended, and nothing else touched. `MILLRACE_ROUNDS=20 bun test --timeout 600000 ./test/long/verify.ts` makes
// fewer rounds; MILLRACE_TRANSACTIONS is how many a second the load asks for.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type VerifySpec, verifyResultOf } from "../../src/connector/task.ts";
import type { VerifyResult } from "../../src/connector/verification.ts";
import { TaskStage } from "../support/program/task-stage.ts";
import type { PostgresServer } from "../support/servers/postgres-server.ts";

const rounds = Number(process.env.MILLRACE_ROUNDS ?? 200);
/** A round takes some seconds, and much longer on a machine that others use. */
const roundMs = 120_000;
const rows = 40_000;
const damages = 10_000;
const sessions = 4;
const transactionsPerSecond = Number(process.env.MILLRACE_TRANSACTIONS ?? 2_000);
/** Rows from here on are never changed at the source: whoever writes to them at the sink has no reason. */
const quietFrom = 20_001;

let stage: TaskStage;
let server: PostgresServer;

beforeAll(async () => {
  stage = await TaskStage.start({
    source: `create table t (id int primary key, n int, d float8, b text, far text);
     alter table t alter far set storage external;
     insert into t select g, 0, 0, '', repeat(md5(g::text), 80) from generate_series(1, ${rows}) g`,
    timeoutMs: 300_000,
  });
  ({ server } = stage);
});
afterAll(() => stage[Symbol.asyncDispose]());

/** Rows change, get other keys, and keep their large values. */
async function load(): Promise<AsyncDisposable> {
  let isOver = false;
  const loops = Array.from({ length: sessions }, async (_, session) => {
    const client = await server.connect("shop");
    const beganMs = performance.now();
    for (let n = 0; !isOver; n++) {
      const id = ((n * 7919 + session * 104_729) % (quietFrom - 1)) + 1;
      const sql =
        n % 50 === 0
          ? `update t set id = -id where id in (${id}, -${id})`
          : `update t set n = ${n} where id in (${id}, ${session + 1})`;
      await client.query(sql);
      // More than the sink can take would only make it late.
      await Bun.sleep(
        Math.max(0, beganMs + (n * sessions * 1_000) / transactionsPerSecond - performance.now()),
      );
    }
    await client.end();
  });
  return {
    async [Symbol.asyncDispose]() {
      isOver = true;
      await Promise.all(loops);
    },
  };
}

async function create(repair: VerifySpec["repair"]): Promise<string> {
  return (await stage.create({ Verify: { schema: "public", name: "t", repair } })).id;
}

async function resultOf(id: string): Promise<VerifyResult> {
  const result = verifyResultOf(await stage.done(id));
  if (!result) throw new Error("a verification without a result");
  return result;
}

test(
  `${rounds} rounds under load and kill -9 tell no difference`,
  async () => {
    await using _load = await load();
    for (let round = 0; round < rounds; round++) {
      const id = await create("None");
      if (round % 5 === 4) {
        await Bun.sleep((round * 37) % 900);
        await stage.restart();
      }
      expect(await resultOf(id)).toMatchObject({ missing: 0, extra: 0, changed: 0 });
    }
  },
  rounds * roundMs,
);

test(
  `${damages} damages under load are found and mended, and nothing else is touched`,
  async () => {
    const quiet = `select id, xmin::text, ctid::text from t where id >= ${quietFrom} order by id`;
    const before = new Map((await server.query<{ id: number }>(quiet, "copy")).map((row) => [row.id, row]));
    {
      await using _load = await load();
      const fifth = damages / 5;
      const of = (kind: number) =>
        `id >= ${quietFrom + kind * fifth} and id < ${quietFrom + (kind + 1) * fifth}`;
      await server.query(
        `update t set far = overlay(far placing chr(ascii(substr(far, 2000, 1)) # 1) from 2000 for 1) where ${of(0)};
       update t set b = null where ${of(1)}; update t set d = '-0' where ${of(2)}; delete from t where ${of(3)};
       insert into t select 1000000 + g, 0, 0, ' ', 'extra' from generate_series(1, ${fifth}) g`,
        "copy",
      );
      const found = await resultOf(await create("Apply"));
      expect(found).toMatchObject({ missing: fifth, extra: fifth, changed: 3 * fifth, repaired: damages });
      expect(await resultOf(await create("None"))).toMatchObject({ missing: 0, extra: 0, changed: 0 });
    }
    const after = await server.query<{ id: number }>(quiet, "copy");
    const touched = after.filter((row) => !Bun.deepEquals(row, before.get(row.id)));
    expect(touched.length).toBe((damages * 4) / 5);
    expect(Math.max(...touched.map(({ id }) => id))).toBe(quietFrom + (damages * 4) / 5 - 1);
  },
  5 * roundMs,
);
