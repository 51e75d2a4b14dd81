// A copy that the sink takes whole, as of one point, before what the stream brings of its table from behind the point. The sink has to know
// the point before the stream comes to it; it may take as long as somebody's transaction to get one, and nobody waits for that.

import type { Lsn } from "../../change/lsn.ts";
import { chunksUntilAborted, untilAborted } from "../../change/until-aborted.ts";
import type { SnapshotPoint } from "../../source/source.ts";
import type { BesideStream, TableBeside } from "./copy-beside-stream.ts";

/** For so long the stream waits for the point at a time, and goes on for longer. */
const standsMs = 250;
const goesOnMs = 1000;

/** Returns the point when the sink has the rows. What is read has its room from the beginning: what waits for this copy waits for no other. */
export async function copyBefore(beside: BesideStream, each: TableBeside): Promise<Lsn> {
  const { source, place, room } = beside;
  const { table, copy, wish, cut } = each;
  return await room.within(1, cut, async () => {
    await using point = await pointBefore(beside, each);
    const { lsn, timeUs } = point;
    await place.passed(lsn, cut);
    const { chunks, rowsRead } = source.copyTable(table, point, copy.form);
    await copy.take({
      ...{ table, form: copy.form, lsn, timeUs, mode: wish.mode },
      ...{ chunks: chunksUntilAborted(chunks, cut), rowsRead },
      progress: (rows, bytes) => wish.progress(rows, bytes, Math.max(rows, table.estimatedRows)),
    });
    return lsn;
  });
}

async function pointBefore(beside: BesideStream, each: TableBeside): Promise<SnapshotPoint> {
  while (true) {
    const taking = beside.source.snapshotPoint(each.cut);
    try {
      if (await isBefore(beside, each, taking)) return await taking;
    } catch (error) {
      void letGo(taking);
      throw error;
    }
    await letGo(taking);
  }
}

/** While the stream stands, a point is behind all that it has brought. One that is had otherwise may be as well. */
async function isBefore(
  { turn }: BesideStream,
  { copy, cut }: TableBeside,
  taking: Promise<SnapshotPoint>,
): Promise<boolean> {
  const within = (ms: number) => Promise.race([taking, Bun.sleep(ms).then(() => null)]);
  while (true) {
    const isTaken = await turn(async () => {
      const point = await within(standsMs);
      return point && ((await copy.goBefore?.(point)) ?? false);
    }, cut);
    if (isTaken !== null) return isTaken;
    await untilAborted(within(goesOnMs), cut);
  }
}

async function letGo(taking: Promise<SnapshotPoint>): Promise<void> {
  const point = await taking.catch(() => null);
  await point?.[Symbol.asyncDispose]();
}
