// The oracle itself: which messages of a table it takes, and that it refuses each kind of wrong ones.

import { describe, expect, test } from "bun:test";
import { checkTable } from "./table-check.ts";

type What = number | "d" | "tombstone";
/** Id, what comes, version. */
type Sent = readonly [id: number, what: What, version?: number];

const untouched = 1;
const id = 2;

/** Rows 1 and 2 are inserted with these stamps; then row 2 changes so. */
const first = [101, 102];

interface Case {
  readonly changes: readonly (number | "d")[];
  readonly sent: readonly Sent[];
  readonly isLoose?: boolean;
  /** What the source has of row 2; its last change by default. */
  readonly current?: number | null;
  /** Idempotency keys of messages, by their place; by default what they say, and the version. */
  readonly keys?: Readonly<Record<number, string>>;
}

function check({ changes, sent, isLoose = false, current, keys = {} }: Case) {
  const log = [
    ...first.map((n, i) => ({ id: i + 1, n })),
    ...changes.map((what) => ({ id, n: what === "d" ? null : what })),
  ];
  const last = log.at(-1)!.n;
  const now = current === undefined ? last : current;
  const row = (of: number, n: number) => ({ id: of, n, v: 0, pad: null });
  const messages = sent.map(([of, what, version = 0], place) => {
    const fields = { ...row(of, Number(what) || 0), _sm_version: version, _sm_deleted: what === "d" };
    const idempotencyKey = Buffer.from(keys[place] ?? `${of} ${what} ${version}`);
    return {
      partition: 0,
      offset: BigInt(place),
      timestamp: 0n,
      key: Buffer.from(JSON.stringify({ id: of })),
      value: what === "tombstone" ? null : Buffer.from(JSON.stringify(fields)),
      headers: what === "tombstone" ? [] : [["Idempotency-Key", idempotencyKey] as const],
    };
  });
  const rows = [row(untouched, first[0]!), ...(now === null ? [] : [row(id, now)])];
  const { wrong, ...found } = checkTable({ table: "t", changes: log, rows, messages }, isLoose);
  const counts = Object.entries(found).filter(([, count]) => count > 0);
  return { wrong: wrong.map((text) => text.split("\n")[0]!), found: Object.fromEntries(counts) };
}

/** A copy of both rows. */
const copied = (what: number, version: number): readonly Sent[] => [
  [untouched, 101, version],
  [id, what, version],
];
const deleted = (version: number): readonly Sent[] => [
  [id, "d", version],
  [id, "tombstone"],
];

describe("it takes", () => {
  const lawful: Record<string, Case & { readonly found?: object }> = {
    "a first copy, and every change behind it": {
      changes: [103, "d", 104],
      sent: [...copied(102, 10), [id, 103, 20], ...deleted(21), [id, 104, 22]],
    },
    "the first copy of a new connector, ahead of its stream, which brings what lies between": {
      changes: [103, "d", 104, 105, 106],
      sent: [
        ...copied(105, 10),
        ...deleted(20),
        ...([104, 105, 106] as const).map((n, i): Sent => [id, n, 21 + i]),
      ],
      found: { copiedAhead: 1 },
    },
    "a first copy that was broken off, once committed in part, and begun anew before the stream": {
      changes: [103, 104, 105],
      sent: [...copied(103, 10), ...copied(105, 10), [id, 103, 20], [id, 104, 21], [id, 105, 22]],
      found: { copiedAhead: 1, copiedAgain: 1 },
    },
    "a row that was not there when the table was copied": {
      changes: ["d", 103],
      sent: [[untouched, 101, 10], [3, 300, 10], ...deleted(11), [id, 103, 12]],
    },
    "a first copy beside the stream, which leaves out what that has touched": {
      changes: [103, 104],
      sent: [
        [id, 103, 8],
        [untouched, 101, 10],
        [3, 300, 10],
        [id, 104, 12],
      ],
    },
    "a first copy beside the stream, behind changes of the row": {
      changes: ["d", 103, 104],
      sent: [...deleted(5), [id, 103, 6], ...copied(103, 10), [id, 104, 12]],
      found: { copiedAgain: 1 },
    },
    "a copy of a task beside the stream": {
      changes: [103, 104],
      sent: [...copied(102, 10), [id, 103, 20], ...copied(103, 25), [id, 104, 30]],
      found: { copiedAgain: 2 },
    },
    // A first copy beside the stream has failed before it was complete, and the stream waited for the next one.
    "a first copy that begins anew amid the stream, whose first message of the key was a delete": {
      changes: ["d", 103, 104, 105],
      sent: [
        ...deleted(5),
        ...copied(105, 10),
        ...([103, 104, 105] as const).map((n, i): Sent => [id, n, 21 + i]),
      ],
      found: { aheadAmidStream: 1 },
    },
    "a part of a first copy, and then another one amid the stream, each ahead of it": {
      changes: [103, 104, 105, 106],
      sent: [
        [id, 103, 5],
        [3, 300, 6],
        [id, 104, 6],
        ...copied(105, 10),
        ...([104, 105, 106] as const).map((n, i): Sent => [id, n, 21 + i]),
      ],
      found: { aheadAmidStream: 1 },
    },
    "changes that come again, where they may": {
      changes: [103, 104],
      sent: [...copied(102, 10), [id, 103, 20], [id, 104, 21], [id, 103, 20], [id, 104, 21]],
      isLoose: true,
      found: { repeated: 2 },
    },
    "a row that was copied ahead, and copied again as another after a crash, where messages may come again": {
      changes: [103, 104],
      sent: [...copied(103, 10), ...copied(104, 10), [id, 103, 20], [id, 104, 21]],
      keys: { 0: "a", 1: "b", 2: "a", 3: "b" },
      isLoose: true,
      found: { copiedAhead: 1, repeated: 1 },
    },
  };
  // Row 3 is copied with row 1, so that the two share a version.
  test.each(Object.entries(lawful))("%s", (_, { found = {}, ...rest }) => {
    const { wrong, found: counted } = check(rest);
    expect(wrong.filter((text) => !text.startsWith("t 3:"))).toEqual([]);
    expect(counted).toEqual({ ...found });
  });
});

describe("it refuses", () => {
  const unlawful: Record<string, Case & { readonly says: string }> = {
    "a change that is lost": {
      changes: [103, 104, 105],
      sent: [...copied(102, 10), [id, 103, 20], [id, 105, 22]],
      says: "t 2: 105 where 104 should be",
    },
    "a delete that is lost": {
      changes: ["d", 103],
      sent: [...copied(102, 10), [id, 103, 20]],
      says: "t 2: a copy brings 102, which is older than what is there",
    },
    "a delete that is lost amid changes": {
      changes: [103, "d", 104],
      sent: [...copied(102, 10), [id, 103, 20], [id, 104, 21]],
      says: "t 2: 104 where a delete should be",
    },
    "a last change that is lost": {
      changes: [103, 104],
      sent: [...copied(102, 10), [id, 103, 20]],
      says: "t 2: the last 1 changes are missing",
    },
    "a change that is lost between a copy and the stream": {
      changes: [103, 104],
      sent: [...copied(102, 10), [id, 104, 20]],
      says: "t 2: a copy brings 102, which is older than what is there",
    },
    "a change that is lost behind a row ahead of the stream": {
      changes: [103, 104, 105],
      sent: [...copied(105, 10), [id, 103, 20], [id, 105, 22]],
      says: "t 2: 105 where 104 should be",
    },
    "a row ahead of the stream which that does not come to": {
      changes: [103, 104, 105],
      sent: [...copied(105, 10), [id, 103, 20], [id, 104, 21]],
      says: "t 2: the last 1 changes are missing",
    },
    "a row ahead amid the stream, behind which a change is lost": {
      changes: ["d", 103, 104, 105],
      sent: [...deleted(5), ...copied(105, 10), [id, 104, 21], [id, 105, 22]],
      says: "t 2: 104 where 103 should be",
    },
    "a change that comes twice": {
      changes: [103, 104],
      sent: [...copied(102, 10), [id, 103, 20], [id, 103, 21], [id, 104, 22]],
      says: "t 2: 103 where 104 should be",
    },
    "a message that comes twice": {
      changes: [103],
      sent: [...copied(102, 10), [id, 103, 20], [id, 103, 21]],
      keys: { 2: "one", 3: "one" },
      says: '{"id":2,"n":103,"v":0,"pad":null,"_sm_version":21,"_sm_deleted":false} is twice',
    },
    "a message that comes again as another": {
      changes: [103, 104],
      sent: [...copied(102, 10), [id, 103, 20], [id, 104, 21]],
      keys: { 2: "one", 3: "one" },
      isLoose: true,
      says: "came again as",
    },
    "a last change that comes twice": {
      changes: [103],
      sent: [...copied(102, 10), [id, 103, 20], [id, 103, 21]],
      says: "t 2: 103 where the end should be",
    },
    "changes in another order": {
      changes: [103, 104, 105],
      sent: [...copied(102, 10), [id, 104, 20], [id, 103, 21], [id, 105, 22]],
      says: "t 2: a copy brings 102, which is older than what is there",
    },
    "an older change last": {
      changes: [103, 104],
      sent: [...copied(102, 10), [id, 103, 20], [id, 104, 21], [id, 103, 22]],
      says: "t 2: 103 where the end should be",
    },
    "an older row of a copy last": {
      changes: [103, 104],
      sent: [[id, 103, 5], [id, 104, 6], ...copied(103, 10)],
      says: "t 2: a copy brings 103, which is older than what is there",
    },
    "an older row of a copy behind a newer one": {
      changes: [103, 104, 105],
      sent: [...copied(105, 10), ...copied(104, 10), [id, 103, 20], [id, 104, 21], [id, 105, 22]],
      says: "t 2: a copy brings 104, which is older than what is there",
    },
    "a copied row that is deleted by then": {
      changes: [103, "d"],
      sent: [[id, 103, 5], ...deleted(6), ...copied(103, 10)],
      says: "t 2: a copy brings 103, which is older than what is there",
    },
    "a row that was never written": {
      changes: [103],
      sent: [...copied(7, 10), [id, 103, 20]],
      says: "t 2: a copy brings 7, which was never written",
    },
    // As a task's copy was once that had brought its table with it, and took that for unpublished: the stream waited for it.
    "a row ahead of the stream behind a first copy that was complete": {
      changes: ["d", 103, 104, 105],
      sent: [
        ...copied(102, 10),
        ...deleted(15),
        ...copied(105, 20),
        ...([103, 104, 105] as const).map((n, i): Sent => [id, n, 21 + i]),
      ],
      says: "t 2: a copy brings 105 ahead of the stream",
    },
    "a delete without its tombstone": {
      changes: ["d"],
      sent: [...copied(102, 10), [id, "d", 20]],
      says: "t 2: a delete without its tombstone",
    },
    "a version that does not rise": {
      changes: [103, 104],
      sent: [...copied(102, 10), [id, 103, 20], [id, 104, 19]],
      says: "t 2: version 19 after 20",
    },
    "a change below its copy's version": {
      changes: [103],
      sent: [...copied(102, 10), [id, 103, 9]],
      says: "t 2: version 9 after 10",
    },
    "a row that is not the source's": {
      changes: [103],
      sent: [...copied(102, 10), [id, 103, 20]],
      current: 999,
      says: "instead of",
    },
    "a row that nobody has sent": {
      changes: [103],
      sent: [[untouched, 101, 10]],
      says: "t 2: nothing is there",
    },
  };
  test.each(Object.entries(unlawful))("%s", (_, { says, ...rest }) => {
    expect(check(rest).wrong[0]).toContain(says);
  });
});
