// Slots at a standby. The standby learns from its primary's log which transactions are open, and the primary logs that now and then:
// https://www.postgresql.org/docs/current/logicaldecoding-explanation.html#LOGICALDECODING-REPLICATION-SLOTS

import { expect, setDefaultTimeout, test } from "bun:test";
import {
  takeConsistentPoint,
  temporarySlotMs,
} from "../../../../src/source/postgres/slot/consistent-point.ts";
import type { SlotKind } from "../../../../src/source/postgres/slot/slot.ts";
import { fullConnection } from "../../../support/api/connector-config.ts";
import { PostgresServer } from "../../../support/servers/postgres-server.ts";
import { startStandby } from "../../../support/servers/standby.ts";

// Starting servers takes time on a busy machine.
setDefaultTimeout(120_000);

/** From now on a transaction that writes is open at any time, and none for long. */
async function keepBusy(server: PostgresServer): Promise<AsyncDisposable> {
  await server.query("create table busy (id int)");
  const sessions = [await server.connect(), await server.connect()] as const;
  const begin = "begin; insert into busy values (1)";
  let isOver = false;
  await sessions[0].query(begin);
  const working = (async () => {
    for (let i = 1; !isOver; i++) {
      await Bun.sleep(300);
      await sessions[i % 2]!.query(begin);
      await sessions[(i + 1) % 2]!.query("commit");
    }
  })();
  return {
    async [Symbol.asyncDispose]() {
      isOver = true;
      await working;
      for (const session of sessions) await session.end();
    },
  };
}

test("a slot, permanent or temporary, is waited for until a busy primary has logged its transactions", async () => {
  await using primary = await PostgresServer.start({ settings: { fsync: "off" } });
  await using standby = await startStandby(primary);
  await using _busy = await keepBusy(primary);
  await using over = new AsyncDisposableStack();
  const stop = new AbortController();
  over.defer(() => stop.abort());
  const warnings: (string | null)[] = [];
  const take = async (kind: SlotKind) => {
    const client = over.use(await standby.connect());
    const session = { client, giveBack: async () => {} };
    const point = await takeConsistentPoint({
      connection: fullConnection(standby.connection()),
      session,
      slot: kind,
      kind,
      run: {},
      permits: undefined,
      signal: stop.signal,
      stop: stop.signal,
      warn: (reason) => warnings.push(reason),
    });
    over.use(point);
    return kind;
  };
  const points = Promise.all([take("permanent"), take("temporary")]);
  // Longer than a point may take elsewhere, and than a session is watched that waits for its client.
  const soon = await Promise.race([points, Bun.sleep(temporarySlotMs + 1_000)]).catch(
    (error: unknown) => error,
  );
  expect(soon).toBeUndefined();
  expect(warnings[0]).toContain("SELECT pg_log_standby_snapshot(); at the primary");
  const logging = setInterval(() => void primary.query("select pg_log_standby_snapshot()"), 200);
  over.defer(() => clearInterval(logging));
  expect(await points).toEqual(["permanent", "temporary"]);
  expect(warnings.slice(-2)).toEqual([null, null]);
});
