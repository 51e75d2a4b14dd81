// A sink whose disk is full: the run keeps its position, reports the cause, and continues by itself when there is
// space.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { RefusalRig } from "../support/pipeline/refusal-rig.ts";
import { copyOwned, SmallDisk } from "../support/program/small-disk.ts";
import { waitFor } from "../support/wait-for.ts";

setDefaultTimeout(90_000);

const plain = "create table t (id int primary key, v text)";
const mayMount = SmallDisk.mayBeMade();

let rig: RefusalRig;
beforeAll(async () => {
  rig = await RefusalRig.start({ settings: { max_wal_size: "64MB", min_wal_size: "32MB" } });
});
afterAll(() => rig[Symbol.asyncDispose]());

type Connected = Awaited<ReturnType<RefusalRig["setUp"]>>;

/** Streams a load. `breaking` fills the sink's disk, and `mending` frees it. */
async function expectWaiting(
  { load, reason }: { readonly load: string; readonly reason: RegExp },
  breaking: (on: Connected) => Promise<unknown>,
  mending: (on: Connected) => Promise<unknown>,
): Promise<void> {
  await using on = await rig.setUp(plain);
  await on.source("insert into t select i, 'one' from generate_series(1, 20000) i");
  const summary = "select count(*)::int as rows, sum(length(v))::int as length from t";
  const before = [{ rows: 20_000, length: 60_000 }];
  await waitFor("the first rows", async () => Bun.deepEquals(await on.sink(summary), before));
  await breaking(on);
  await on.source(load);
  const text = await on.refusal();
  expect(text).toMatch(reason);
  expect(text).not.toContain("secret");
  await mending(on);
  expect(await on.sink(summary)).toEqual(before);
  await on.goesOn();
}

const inserts = (rows: number) =>
  `insert into t select -i, repeat('secret', 100) || i from generate_series(1, ${rows}) i`;
const endSessions =
  "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'millrace apply%'";
const unmountable = ", in place of a full disk: none can be mounted here";

test(`temporary files beyond temp_file_limit${mayMount ? "" : unmountable}`, () =>
  expectWaiting(
    {
      load: "update t set v = repeat('secret', 10) || id",
      reason:
        /^Table public\.t: The server says: temporary file size exceeds temp_file_limit .*\(SQLSTATE 53400\)/,
    },
    ({ sink, database }) =>
      sink(
        `alter database ${database} set temp_file_limit = 0; alter database ${database} set work_mem = '64kB'; ${endSessions}`,
      ),
    ({ sink, database }) => sink(`alter database ${database} reset temp_file_limit; ${endSessions}`),
  ));

/** Moves the server's data to a separate disk. The server is stopped before and after. */
async function whileOnDisk(
  directory: string,
  megabytes: number,
  action: (disk: SmallDisk) => Promise<void>,
): Promise<void> {
  const aside = join(rig.sink.directory, "aside");
  await rig.sink.stop();
  await rename(directory, aside);
  const disk = await SmallDisk.at(directory, megabytes);
  try {
    await copyOwned(aside, directory);
    await rig.sink.launch();
    await action(disk);
  } finally {
    await rig.sink.stop();
    await rm(aside, { recursive: true });
    await copyOwned(directory, aside);
    await disk[Symbol.asyncDispose]();
    await rm(directory, { recursive: true });
    await rename(aside, directory);
  }
  await rig.sink.launch();
}

if (mayMount) {
  test("a full disk of tables", async () => {
    const base = join(rig.sink.directory, "data", "base");
    await whileOnDisk(base, 150, (disk) =>
      expectWaiting(
        {
          load: inserts(50_000),
          reason:
            /^Table public\.t: The server says: could not extend file .*: No space left on device.*\(SQLSTATE 53100\)/,
        },
        () => disk.fill(),
        () => disk.makeRoom(),
      ),
    );
  });

  test("a full disk of WAL, which makes the server crash", async () => {
    const log = join(rig.sink.directory, "data", "pg_wal");
    await whileOnDisk(log, 250, (disk) =>
      expectWaiting(
        { load: inserts(100_000), reason: /^Sink .*: (The server|Nothing listens) / },
        () => disk.fill(),
        async () => {
          await disk.makeRoom();
          await rig.sink.stop();
          await rig.sink.launch();
        },
      ),
    );
  });
}
