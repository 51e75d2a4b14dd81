// The lag of a connector with nothing to do.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { variants } from "../support/matrix.ts";
import { PipelineRig } from "../support/pipeline/pipeline-rig.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { waitFor } from "../support/wait-for.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await PostgresServer.start({ major: 17, settings: { fsync: "off" } });
});
afterAll(() => server[Symbol.asyncDispose]());

type Case = readonly [sql: string, columns: readonly string[]];
const everyday: readonly Case[] = [["alter table t add column more int", ["id", "g s", "more"]]];
const others: readonly Case[] = [["alter table t alter g drop expression", ["id", "g"]]];

test.each(variants(everyday, others))(
  "%s, with no row: it is not behind once the sink has followed",
  async (sql, columns) => {
    const source = "create table t (id int primary key, g int generated always as (id * 2) stored)";
    await using rig = await PipelineRig.streaming(
      server,
      `lag_${columns.length}`,
      { source },
      { isSupervised: true },
    );
    await rig.source("insert into t values (1)");
    await rig.expectEqual();
    await rig.source(sql);
    const atSink = () =>
      rig.sink<{ name: string }>(
        `select trim(attname || ' ' || attgenerated::text) as name from pg_attribute
       where attrelid = 't'::regclass and attnum > 0 order by attnum`,
      );
    await waitFor("the sink to follow", async () =>
      Bun.deepEquals(
        (await atSink()).map(({ name }) => name),
        columns,
      ),
    );
    const behindMs = () => {
      const { behindSinceMs = null } = rig.progress ?? {};
      return behindSinceMs === null ? 0 : Date.now() - behindSinceMs;
    };
    // It is told once a second.
    const seen: number[] = [];
    for (let second = 0; second < 5; second++) {
      await Bun.sleep(1_000);
      seen.push(behindMs());
    }
    expect(seen.slice(2)).toEqual([0, 0, 0]);
    await rig.stop();
  },
);
