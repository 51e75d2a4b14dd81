// How far the stream may have been sent, where requests do not wait for that to be on record.

import { expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import { RecordKeeper } from "../../../../src/sink/delivery/record/record-keeper.ts";
import { noTables, SavedTables } from "../../../../src/sink/delivery/record/recorded-tables.ts";
import { begunRecord, parseRecord } from "../../../../src/sink/delivery/record/sink-record.ts";
import { SentReach } from "../../../../src/sink/delivery/stream/sent-reach.ts";
import { beginning } from "../../../support/contract/history.ts";
import { waitFor } from "../../../support/wait-for.ts";

const at = (commitLsn: bigint) => ({ commitLsn: lsn(commitLsn), ordinal: 0 });

/** `saved`: what each save of the record has. */
function followed() {
  const monotonic = () => performance.now();
  const saved: string[] = [];
  const save = async (text: string) => void saved.push(text);
  const keeper = new RecordKeeper({ save }, begunRecord(beginning), new SavedTables(noTables), monotonic);
  const reach = new SentReach({ keeper, cutsMatter: false, commitPoint: null, monotonic });
  const reached = () => {
    const stored = parseRecord({ text: saved.at(-1)!, parts: new Map() });
    return stored.kind === "begun" ? stored.record.reached : null;
  };
  return { keeper, saved, reach, reached };
}

test("the last place is on record soon also where nothing follows it, and one save has many places", async () => {
  const { saved, reach, reached } = followed();
  reach.follow(at(10n));
  await waitFor("the first place", () => saved.length > 0);
  for (let place = 11n; place <= 50n; place++) reach.follow(at(place));
  await waitFor("the last place", () => reached()?.commitLsn === 50n, { timeoutMs: 2_000 });
  expect(saved.length).toBe(2);
  await Bun.sleep(600);
  expect(saved.length).toBe(2);
});

test("the last one at once is on record, also where it is known already", async () => {
  // A wait that is built in would be in each round, whatever else the machine is busy with.
  for (let waitedMs = Infinity; waitedMs >= 400; ) {
    const { saved, reach, reached } = followed();
    reach.follow(at(10n));
    await waitFor("the first place", () => saved.length > 0);
    reach.follow(at(11n));
    const began = performance.now();
    reach.follow(at(11n), true);
    await waitFor("the last place", () => reached()?.commitLsn === 11n);
    waitedMs = performance.now() - began;
  }
});

test("nothing of a record that is forgotten is saved later", async () => {
  const { keeper, saved, reach } = followed();
  reach.follow(at(10n));
  await waitFor("the first place", () => saved.length > 0);
  reach.follow(at(11n));
  await keeper.forget(7n);
  await Bun.sleep(700);
  expect(saved.length).toBe(2);
  expect(parseRecord({ text: saved[1]!, parts: new Map() })).toEqual({ kind: "forgotten", lastVersion: 7n });
});
