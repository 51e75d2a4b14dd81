// What a look at the end of the log tells of the server: it is about to send, or it stands still.

import { expect, test } from "bun:test";
import { lsn } from "../../../../src/change/lsn.ts";
import { LogEnd } from "../../../../src/source/postgres/stream/log-end.ts";

/** A log that ends at 100, as the stream begins there. */
function begun() {
  const clock = { ms: 0 };
  const log = new LogEnd(lsn(100n), lsn(100n), () => clock.ms);
  /** What a look finds at this time. */
  const look = (ms: number, end: bigint, resumeLsn = 100n) => {
    clock.ms = ms;
    log.seen(lsn(end), lsn(resumeLsn));
    return { isUnsent: log.isUnsent(lsn(resumeLsn)), standsStill: log.standsStill };
  };
  return { log, look };
}

test("a server that sends what a look has seen does not stand still, though every look sees more", () => {
  const { log, look } = begun();
  expect(look(0, 200n)).toEqual({ isUnsent: true, standsStill: false });
  // By a keepalive, and by a commit.
  log.tells(lsn(200n));
  expect(log.isUnsent(lsn(100n))).toBe(false);
  expect(look(10_000, 300n)).toEqual({ isUnsent: true, standsStill: false });
  expect(look(20_000, 400n, 300n)).toEqual({ isUnsent: true, standsStill: false });
  expect(log.known).toBe(lsn(400n));
});

test("one that has not sent it ten seconds later stands still, until a look finds it sent", () => {
  const { log, look } = begun();
  expect(look(0, 100n)).toEqual({ isUnsent: false, standsStill: false });
  expect(look(5_000, 200n)).toEqual({ isUnsent: true, standsStill: false });
  expect(look(14_999, 300n).standsStill).toBe(false);
  log.tells(lsn(150n));
  expect(look(15_000, 400n)).toEqual({ isUnsent: true, standsStill: true });
  log.tells(lsn(400n));
  expect([log.isUnsent(lsn(100n)), log.standsStill]).toEqual([false, true]);
  expect(look(16_000, 400n)).toEqual({ isUnsent: false, standsStill: false });
});
