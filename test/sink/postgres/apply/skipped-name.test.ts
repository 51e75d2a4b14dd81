// A change that is not applied may be of a table that has taken the name of another one of its batch. Its history takes that name, too.

import { expect, test } from "bun:test";
import type { Client } from "pg";
import type { Relation } from "../../../../src/change/relation.ts";
import { type ApplierTables, BatchApplier } from "../../../../src/sink/postgres/apply/batch-applier.ts";
import type { MergeSession } from "../../../../src/sink/postgres/apply/merge-session.ts";
import { prepareTable } from "../../../../src/sink/postgres/apply/prepared-table.ts";
import { WrittenBytes } from "../../../../src/sink/postgres/apply/written-bytes.ts";
import { prepareHistory } from "../../../../src/sink/postgres/history/prepared-history.ts";
import { readTargetTable } from "../../../../src/sink/postgres/schema/target-table.ts";
import type { FixtureChange } from "../../../support/rows/batch-fixture.ts";
import { batches, relation, transaction } from "../../../support/rows/batch-fixture.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";

const columns = [["id", 23, "integer"] as const, ["v", 25, "text"] as const];
const former = relation("a", columns, { id: 1 });
const latter = relation("a", columns, { id: 2 });

const update = (of: Relation, v: string): FixtureChange => ({
  kind: "update",
  relation: of,
  after: ["1", v],
});

const own = "_sm_op text, _sm_committed_at timestamptz, _sm_lsn pg_lsn, _sm_ordinal int8";

async function historyAt(client: Client, of: Relation, name: string) {
  const history = (await readTargetTable(client, { schema: "public", name }))!;
  const followed = of.columns.map((column) => ({
    number: 0,
    name: column.name,
    type: column.typeName,
    sourceType: column.typeName,
  }));
  return prepareHistory({
    relation: of,
    table: null,
    isApplied: false,
    history,
    followed,
    form: "text",
    staging: "staged",
  });
}

/** Where `latter`'s history takes the name of `former`'s, as `HistoryFit` does it. */
const takeName =
  "alter table public.a_history rename to former_history; alter table public.b_history rename to a_history";

test("changes of the other table are in its own history", async () => {
  await using server = await PostgresServer.start({ settings: { fsync: "off" } });
  await server.query(`create table a (id int primary key, v text); insert into a values (1, 'old');
    create table a_history (id int, v text, ${own}); create table b_history (like a_history)`);
  await server.with("postgres", async (client) => {
    const known: ApplierTables = {
      prepare: async (of) => {
        const table = (await readTargetTable(client, { schema: "public", name: of.name }))!;
        const copy = { kind: "none" } as const;
        const place = { staging: "s", copy, rank: 0, isShared: false, isOlder: false };
        return prepareTable(table, of, "text", place);
      },
      histories: {
        ofTable: ({ relation }) => historyAt(client, relation, "a_history"),
        ofSkipped: async (of) => {
          await client.query(takeName);
          return await historyAt(client, of, "a_history");
        },
      },
      copyOf: () => ({ kind: "none" }),
      isSkipped: ({ id }) => id === latter.id,
      isSuperseded: () => false,
      incomplete: { has: () => false } as unknown as ApplierTables["incomplete"],
    };
    const touched = { of: () => null, checkShape: async () => {} } as unknown as MergeSession["touched"];
    const session: MergeSession = {
      client,
      form: "text",
      staging: new Map(),
      written: new WrittenBytes(),
      upserts: false,
      repeats: false,
      incomplete: null,
      touched,
      inOrder: false,
      warn: () => {},
    };
    const [batch] = batches([transaction(1, [update(former, "of a"), update(latter, "of b")])]);
    await client.query("begin; set local search_path = ''");
    await new BatchApplier(session, batch!, known).apply();
    await client.query("commit");
  });
  expect(await server.query("select v from former_history")).toEqual([{ v: "of a" }]);
  expect(await server.query("select v from a_history")).toEqual([{ v: "of b" }]);
});
