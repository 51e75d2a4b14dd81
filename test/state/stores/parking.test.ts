// What is parked, over both databases: what a run stores, and what people do with it.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { sql } from "drizzle-orm";
import type { CutPage, ParkedMessage, ParkedPage, ParkedWishes } from "../../../src/connector/parking.ts";
import type { Database } from "../../../src/state/database.ts";
import type { State } from "../../../src/state/open-state.ts";
import { storedConnector } from "../../support/api/sample-connector.ts";
import { databaseKinds, StateOver } from "../../support/runtime/state-over.ts";

const idOf = (n: number) => `018bcfe5-6800-7000-8000-${String(n).padStart(12, "0")}`;

function message(n: number, change: Partial<ParkedMessage> = {}): ParkedMessage {
  const body = Bun.zstdCompressSync(Buffer.from(`[{"id":${n},"v":"ä\\u0000"}]`));
  return {
    id: idOf(n),
    schema: "public",
    table: "orders",
    hashes: [n, -2147483648],
    isWide: false,
    places: [2n ** 100n + BigInt(n)],
    firstRows: null,
    versions: [1_700_000_000_000_000 + n],
    isOfCopy: false,
    bytes: 30,
    keys: `[{"id":"9007199254740993"}]`,
    rows: 1,
    body: new Uint8Array(body),
    firstLsn: "0/1",
    committedAtMs: 1_700_000_000_000,
    cause: "refused",
    mayHaveArrived: false,
    attempts: [{ at: "2026-01-02T03:04:05.678Z", status: 400, answer: 'no "x"' }],
    ...change,
  };
}

for (const kind of databaseKinds) {
  describe(`parking over ${kind}`, () => {
    let over: StateOver;
    let state: State;
    const page = { after: null, limit: 100, schema: null, table: null, before: null, isDiscarded: false };

    beforeAll(async () => {
      over = await StateOver.start(kind);
      ({ state } = over);
    });
    afterAll(() => over[Symbol.asyncDispose]());

    async function connector(id: string) {
      await state.connectors.insert(storedConnector(id));
      const park = (...messages: ParkedMessage[]) =>
        state.parking.answer(id, { kind: "park", messages }, null);
      const load = async (after = 0) =>
        (await state.parking.answer(id, { kind: "load", after }, null)) as ParkedPage;
      const look = async (askedSince: string | null = null, discardedSince: string | null = null) =>
        (await state.parking.answer(id, { kind: "look", askedSince, discardedSince }, null)) as ParkedWishes;
      const cuts = async (after: string | null = null) =>
        (await state.parking.answer(id, { kind: "cuts", after }, null)) as CutPage;
      return { park, load, look, cuts };
    }

    test("messages of a key are found by its hash, however the key is written, and without it by the texts of its values", async () => {
      const { park } = await connector("keys");
      await park(
        message(1, { hashes: [7], keys: '[{"id":7,"at":1767225600000000}]' }),
        message(2, { hashes: [8], keys: '[{"id":8}]' }),
        // Of a table that keeps the order of the stream.
        message(3, { hashes: [0], keys: '[{"id":7}]', table: "strict" }),
        message(4, { hashes: [0], keys: '[{"id":9}]', table: "strict" }),
      );
      const found = async (name: string, asked: object, hash: number | null) =>
        (await state.parked.ofKey("keys", { schema: "public", name, key: asked }, hash)).map(({ id }) => id);
      expect(await found("orders", { id: "7", at: "2026-01-01T00:00:00Z" }, 7)).toEqual([idOf(1)]);
      expect(await found("orders", { id: "7" }, 99)).toEqual([]);
      expect(await found("orders", { id: "8" }, null)).toEqual([idOf(2)]);
      expect(await found("orders", { id: 8 }, null)).toEqual([idOf(2)]);
      expect(await found("orders", { id: "08" }, null)).toEqual([]);
      expect(await found("strict", { id: "7" }, 1234)).toEqual([idOf(3)]);
    });

    test("a message that is parked is found for its key, however many were discarded before it, and the newest of these", async () => {
      const { park } = await connector("many");
      await park(...Array.from({ length: 1_001 }, (_, n) => message(n, { hashes: [7] })));
      await state.parked.discard("many", {}, "ann");
      await park(message(1_001, { hashes: [7] }), message(1_002, { hashes: [7] }));
      const row = { schema: "public", name: "orders", key: { id: "7" } };
      const found = (await state.parked.ofKey("many", row, 7)).map(({ id }) => id);
      expect(found.slice(0, 4)).toEqual([1_001, 1_002, 1_000, 999].map(idOf));
    });

    test("a message is there as it was parked, once", async () => {
      const { park, load } = await connector("one");
      await park(message(2), message(1));
      await park(message(1, { schema: "other" }), message(3, { isWide: true, hashes: [], firstLsn: null }));
      const { entries, next } = await load();
      expect(next).toBeNull();
      expect(entries.map(({ entry }) => entry.id)).toEqual([idOf(2), idOf(1), idOf(3)]);
      const {
        body: _,
        keys: __,
        rows: ___,
        firstLsn: ____,
        versions: _____,
        committedAtMs,
        cause,
        attempts,
        mayHaveArrived,
        ...entry
      } = message(2);
      const untriedMs = expect.any(Number);
      expect(entries[0]).toEqual({ entry, isSettled: false, isUntried: false, mayHaveArrived, untriedMs });
      const { parked } = await state.parked.list("one", page);
      expect(parked[1]).toMatchObject({
        schema: "public",
        state: "Parked",
        keys: [{ id: "9007199254740993" }],
        cause,
        attempts,
      });
      expect(parked[2]!.first_lsn).toBeUndefined();
      expect(new Date(committedAtMs).toISOString()).toBe(parked[0]!.committed_at);
      const shown = await state.parked.find("one", idOf(2), true);
      expect(shown?.body).toBe('[{"id":2,"v":"ä\\u0000"}]');
      const bodies = { kind: "bodies", ids: [idOf(2), idOf(9), idOf(1)] } as const;
      expect(await state.parking.answer("one", bodies, null)).toEqual(
        new Map([1, 2].map((n) => [idOf(n), message(n).body])),
      );
      expect([...(await state.parked.totals(null))]).toContainEqual(["one", { messages: 3, bytes: 90 }]);
    });

    test("pages, tables and names with quotes", async () => {
      const { park } = await connector("pages");
      const tables = [`o'rders"`, "orders"];
      await park(...Array.from({ length: 25 }, (_, n) => message(n, { table: tables[n % 2]! })));
      const seen: string[] = [];
      for (let after: string | null = null, first = true; first || after !== null; first = false) {
        const { parked, next } = await state.parked.list("pages", { ...page, after, limit: 10 });
        seen.push(...parked.map(({ id }) => id));
        after = next;
      }
      expect(seen).toEqual(Array.from({ length: 25 }, (_, n) => idOf(n)));
      const { parked, total } = await state.parked.list("pages", { ...page, table: tables[0]!, limit: 2 });
      expect([parked.length, total]).toEqual([2, 13]);
      await state.parked.ask("pages", { table: tables[1]! });
      expect(await state.parked.list("pages", { ...page, limit: 1 })).toMatchObject({ total: 25, asked: 12 });
    });

    test("what was parked since a list was made is left alone by what is asked of that list", async () => {
      const { park } = await connector("since");
      await park(message(1), message(2));
      await Bun.sleep(5);
      const { total, as_of: before } = await state.parked.list("since", { ...page, limit: 1 });
      expect(total).toBe(2);
      await Bun.sleep(5);
      await park(message(3, { hashes: [3] }));
      expect(await state.parked.ask("since", { before })).toBe(2);
      expect(await state.parked.discard("since", { before }, "ann")).toBe(2);
      expect((await state.parked.list("since", page)).parked.map(({ id }) => id)).toEqual([idOf(3)]);
    });

    test("what is asked for is told until it was tried, and attempts are kept", async () => {
      const { park, look } = await connector("ask");
      await park(message(1), message(2), message(3));
      expect(await look()).toMatchObject({ wanted: [], askedUntil: null, discarded: [] });
      expect(await state.parked.ask("ask", { id: idOf(2) })).toBe(1);
      const first = await look();
      expect(first.wanted).toEqual([idOf(2)]);
      expect(await state.parked.ask("ask", {})).toBe(3);
      const second = await look(first.askedUntil);
      expect(second.wanted).toEqual([idOf(1), idOf(2), idOf(3)]);
      expect((await look(second.askedUntil)).wanted).toEqual([]);
      const at = "2026-02-02T00:00:00.000Z";
      for (const status of [401, 402, 403])
        await state.parking.answer(
          "ask",
          { kind: "refused", id: idOf(1), attempts: [{ at, status }], askedUntil: second.askedUntil },
          null,
        );
      await state.parking.answer("ask", { kind: "delivered", ids: [idOf(2)] }, null);
      await state.parking.answer("ask", { kind: "tried", askedUntil: second.askedUntil! }, null);
      const { parked } = await state.parked.list("ask", page);
      expect(parked.map(({ id, state: is }) => [id, is])).toEqual([
        [idOf(1), "Parked"],
        [idOf(3), "Parked"],
      ]);
      expect(parked[0]!.attempts.map(({ status }) => status)).toEqual([400, 402, 403]);
      expect(await state.parked.find("ask", idOf(2), false)).toBeNull();
    });

    test("a discard is on record, is told, and asks for what waited behind it", async () => {
      const { park, load, look } = await connector("discard");
      await park(message(1, { hashes: [1] }), message(2, { hashes: [2] }), message(3, { hashes: [1, 3] }));
      await park(message(4, { hashes: [1], table: "others" }));
      expect(await state.parked.discard("discard", { id: idOf(1) }, "ann")).toBe(1);
      expect(await state.parked.discard("discard", { id: idOf(1) }, "bob")).toBe(0);
      const { wanted, discarded } = await look();
      expect([wanted, discarded]).toEqual([[idOf(3)], [idOf(1)]]);
      const list = await state.parked.list("discard", { ...page, isDiscarded: true });
      expect(list.parked).toMatchObject([{ id: idOf(1), state: "Discarded", discarded_by: "ann" }]);
      expect(await state.parking.answer("discard", { kind: "bodies", ids: [idOf(1)] }, null)).toEqual(
        new Map(),
      );
      expect((await load()).entries.map(({ isSettled }) => isSettled)).toEqual([true, false, false, false]);
      await state.parking.answer(
        "discard",
        { kind: "sweep", place: 2n ** 100n + 1n, version: 1, areCopiesOpen: false },
        null,
      );
      expect((await load()).entries.length).toBe(3);
      expect((await state.parked.list("discard", { ...page, isDiscarded: true })).parked.length).toBe(1);
      expect(
        await state.parked.discard("discard", { table: "orders", before: new Date().toISOString() }, "ann"),
      ).toBe(2);
      expect(await state.parked.discard("discard", {}, "ann")).toBe(1);
    });

    test("what waits behind two thousand that are discarded is asked for in less than three seconds", async () => {
      const { park, look } = await connector("bulk");
      const parkAll = async (first: number) => {
        for (let at = first; at < first + 2_000; at += 500)
          await park(
            ...Array.from({ length: 500 }, (_, i) => message(at + i, { hashes: [(at + i) % 2_000] })),
          );
      };
      await parkAll(0);
      await Bun.sleep(20);
      const before = new Date().toISOString();
      await parkAll(2_000);
      const began = over.usedMs();
      expect(await state.parked.discard("bulk", { before }, "ann")).toBe(2_000);
      expect(over.usedMs() - began).toBeLessThan(3_000);
      expect((await look()).wanted.length).toBe(2_000);
    });

    test("a discard is told however long a run that has looked before does not look", async () => {
      const { park, look } = await connector("rare");
      await park(message(1), message(2));
      const { discardedUntil } = await look();
      await state.parked.discard("rare", { id: idOf(1) }, "ann");
      const { database } = state.parking as unknown as { readonly database: Database };
      // As if it had been discarded ten minutes ago: just after what the first look was told of.
      await database.execute(sql`update millrace.parked_messages
        set ended_at = ${discardedUntil}::timestamptz + interval '2 ms' where id = ${idOf(1)}::uuid and connector_id = 'rare'`);
      await Bun.sleep(20);
      expect((await look(null, discardedUntil)).discarded).toEqual([idOf(1)]);
    });

    test("messages are parked, and leave, beside thousands of others in a moment", async () => {
      const { park } = await connector("beside");
      const { database } = state.parking as unknown as { readonly database: Database };
      await database.execute(sql`insert into millrace.parked_messages (connector_id, id, state, cause, schema_name, table_name, keys, hashes,
          is_wide, rows, bytes, min_version, max_version, is_of_copy, committed_at, attempts, parked_at, is_passed)
        select 'beside', ('018bcfe5-6800-7000-8000-' || lpad(i::text, 12, '0'))::uuid, 'parked', 'refused', 'public', 'orders', '[]', array[i],
          false, 1, 26, i, i, false, now(), '[]', now(), false from generate_series(1, 10000) i`);
      const messages = Array.from({ length: 200 }, (_, n) => message(20_000 + n));
      const ids = messages.map(({ id }) => id);
      const began = over.usedMs();
      await park(...messages);
      await park(message(30_000, { replaces: idOf(7) }), message(30_001, { replaces: idOf(8) }));
      await state.parking.answer("beside", { kind: "delivered", ids }, null);
      expect(over.usedMs() - began).toBeLessThan(1_000);
      expect((await state.parked.totals(null)).get("beside")?.messages).toBe(10_000);
    });

    test("a discard is told once, however many there are in a moment", async () => {
      const { park, look } = await connector("once");
      await park(...Array.from({ length: 30 }, (_, n) => message(n, { hashes: [n] })));
      const told: string[] = [];
      let since: string | null = null;
      for (let n = 0; n < 30; n++) {
        await state.parked.discard("once", { id: idOf(n) }, "ann");
        if (n % 3 > 0) continue;
        const { discarded, discardedUntil } = await look(null, since);
        told.push(...discarded);
        since = discardedUntil;
      }
      told.push(...(await look(null, since)).discarded);
      expect(told.toSorted()).toEqual(Array.from({ length: 30 }, (_, n) => idOf(n)));
      expect((await look(null, (await look(null, since)).discardedUntil)).discarded).toEqual([]);
    });

    test("a message without a key: all of its table waits behind it", async () => {
      const { park, look } = await connector("wide");
      await park(message(1, { isWide: true, hashes: [] }), message(2), message(3, { table: "others" }));
      await state.parked.discard("wide", { id: idOf(1) }, "ann");
      expect((await look()).wanted).toEqual([idOf(2)]);
    });

    test("a message that takes the place of another one has its cause, its attempts, its time and the wish for it", async () => {
      const { park, load, look } = await connector("replaced");
      await park(message(1), message(2));
      const since = (await state.parked.list("replaced", page)).parked.map(({ parked_at }) => parked_at);
      await Bun.sleep(5);
      await state.parked.ask("replaced", { id: idOf(1) });
      await park(
        message(3, { replaces: idOf(1), cause: "behind", attempts: [] }),
        message(4, { replaces: idOf(9), cause: "behind", attempts: [] }),
      );
      expect((await load()).entries.map(({ entry }) => entry.id)).toEqual([idOf(2), idOf(3), idOf(4)]);
      expect((await look()).wanted).toEqual([idOf(3)]);
      const { parked } = await state.parked.list("replaced", page);
      expect(parked.map(({ cause, attempts }) => [cause, attempts.length])).toEqual([
        ["refused", 1],
        ["refused", 1],
        ["behind", 0],
      ]);
      expect(parked.slice(0, 2).map(({ parked_at }) => parked_at)).toEqual([since[1]!, since[0]!]);
    });

    test("a run asks for what nobody has asked for, later than all that was asked for", async () => {
      const { park, look } = await connector("due");
      await park(message(1), message(2), message(3));
      await state.parked.ask("due", { id: idOf(2) });
      const { askedUntil } = await look();
      await state.parking.answer("due", { kind: "ask" }, null);
      expect((await look(askedUntil)).wanted).toEqual([idOf(1), idOf(3)]);
      expect((await look()).wanted).toEqual([idOf(1), idOf(2), idOf(3)]);
    });

    test("cuts are kept until they are passed, and nothing is left of a connector that begins again", async () => {
      const { park, load, cuts } = await connector("cuts");
      const cut = { key: idOf(1), parts: ["0-3,5", "4"], maxPlace: 10n, maxVersion: 1, isOfCopy: false };
      const ofCopy = { ...cut, key: idOf(2), isOfCopy: true };
      for (const each of [cut, { ...cut, parts: [] }, ofCopy])
        await state.parking.answer("cuts", { kind: "cut", cuts: [each] }, null);
      expect(await cuts()).toEqual({ cuts: [cut], ofCopies: [idOf(2)], next: null });
      expect(await cuts(idOf(1))).toEqual({ cuts: [], ofCopies: [idOf(2)], next: null });
      const find = (key: string) => state.parking.answer("cuts", { kind: "find-cut", key }, null);
      expect([await find(idOf(2)), await find(idOf(3))]).toEqual([ofCopy, null]);
      await state.parking.answer(
        "cuts",
        { kind: "sweep", place: 10n, version: 1, areCopiesOpen: false },
        null,
      );
      expect(await cuts()).toEqual({ cuts: [], ofCopies: [idOf(2)], next: null });
      const others = [3, 4, 5].map((n) => ({ ...cut, key: idOf(n), maxPlace: 99n }));
      for (const each of others) await state.parking.answer("cuts", { kind: "cut", cuts: [each] }, null);
      await state.parking.answer("cuts", { kind: "uncut", keys: [idOf(3), idOf(5), idOf(9)] }, null);
      expect((await cuts()).cuts.map(({ key }) => key)).toEqual([idOf(4)]);
      await park(message(1));
      await state.parking.remove("cuts", null);
      expect(await load()).toEqual({ entries: [], next: null });
      expect(await cuts()).toEqual({ cuts: [], ofCopies: [], next: null });
    });

    test("what the stream has not passed is kept however old it is, and what is left of copies until none is open", async () => {
      const { park, load, cuts } = await connector("old");
      const ofStream = { places: [10n] };
      const ofCopy = { places: [5n], isOfCopy: true };
      await park(message(1, ofStream), message(2, ofStream), message(3, ofCopy), message(4, ofCopy));
      await state.parking.answer("old", { kind: "delivered", ids: [idOf(1), idOf(3)] }, null);
      for (const n of [2, 4]) await state.parked.discard("old", { id: idOf(n) }, "ann");
      const cut = { key: idOf(5), parts: ["0", "1"], maxPlace: 10n, maxVersion: 1, isOfCopy: false };
      for (const each of [cut, { ...cut, key: idOf(6), maxPlace: 5n, isOfCopy: true }])
        await state.parking.answer("old", { kind: "cut", cuts: [each] }, null);
      const { database } = state.parking as unknown as { readonly database: Database };
      const days = sql.raw("interval '8 days' where connector_id = 'old'");
      await database.execute(sql`update millrace.parked_messages set ended_at = ended_at - ${days}`);
      await database.execute(sql`update millrace.request_cuts set cut_at = cut_at - ${days}`);
      const sweep = async (place: number, areCopiesOpen: boolean) => {
        // Versions say nothing.
        const call = { kind: "sweep", place: BigInt(place), version: 9e15, areCopiesOpen } as const;
        await state.parking.answer("old", call, null);
        const { entries } = await load();
        const page1 = await cuts();
        return [
          entries.map(({ entry }) => Number(entry.id.slice(-1))),
          [...page1.cuts.map(({ key }) => key), ...page1.ofCopies].map((key) => Number(key.slice(-1))),
        ];
      };
      expect(await sweep(9, true)).toEqual([
        [1, 2, 3, 4],
        [5, 6],
      ]);
      expect(await sweep(9, false)).toEqual([[1, 2], [5]]);
      expect(await sweep(10, false)).toEqual([[], []]);
      // What has come to be passed was on record for long enough.
      await sweep(10, false);
      expect((await state.parked.list("old", { ...page, isDiscarded: true })).parked).toEqual([]);
    });

    test("who looks at what is parked, or removes it, finds all that an ended run is still writing", async () => {
      const { park, load, cuts } = await connector("slow");
      const many = (from: number) =>
        Array.from({ length: 300 }, (_, n) => message(from + n, { hashes: [n] }));
      const writes = () => [
        park(...many(0)),
        ...many(2_000).map(({ id: key }) => {
          const cut = { key, parts: ["0", "1"], maxPlace: 1n, maxVersion: 1, isOfCopy: false };
          return state.parking.answer("slow", { kind: "cut", cuts: [cut] }, null);
        }),
      ];
      const writing = Promise.all(writes());
      const [{ entries }, known] = await Promise.all([load(), cuts()]);
      expect([entries.length, known.cuts.length]).toEqual([300, 300]);
      await writing;
      const ids = many(0).map(({ id }) => id);
      const delivering = state.parking.answer("slow", { kind: "delivered", ids }, null);
      expect((await load()).entries.every(({ isSettled }) => isSettled)).toBe(true);
      await delivering;
      const last = Promise.all([park(...many(5_000)), ...writes()]);
      await state.parking.remove("slow", null);
      await last;
      expect(await load()).toEqual({ entries: [], next: null });
      expect(await cuts()).toEqual({ cuts: [], ofCopies: [], next: null });
    });

    test("a write that fails keeps nobody from what is parked", async () => {
      const { park, load } = await connector("failed");
      await park(message(1));
      const call = { kind: "park", messages: [message(2)] } as const;
      const failing = state.parking.answer("failed", call, 7).catch((error: unknown) => error);
      expect((await load()).entries.length).toBe(1);
      expect(await failing).toMatchObject({ code: "lease_lost" });
    });

    test("places of several rows come back", async () => {
      const { park, load } = await connector("places");
      const rows = { places: [1n, 2n ** 150n, 2n ** 150n + 1n], firstRows: [1, 0] };
      await park(message(1, { hashes: [2, 1], ...rows, versions: [7, 8, 9] }));
      expect((await load()).entries[0]?.entry).toMatchObject({ hashes: [2, 1], ...rows });
    });

    test("what an earlier version parks has versions in place of places, and is passed by these", async () => {
      const { park, load, cuts } = await connector("earlier");
      const rows = { places: [1n, 2n, 3n], firstRows: [1, 0], versions: [7, 8, 9] };
      await park(message(1, { hashes: [2, 1], ...rows }), message(2), message(3, { versions: [10] }));
      const cut = { key: idOf(5), parts: ["0", "1"], maxPlace: 3n, maxVersion: 9, isOfCopy: false };
      await state.parking.answer("earlier", { kind: "cut", cuts: [cut] }, null);
      const { database } = state.parking as unknown as { readonly database: Database };
      // It does not know these columns.
      for (const nulls of [
        "parked_messages set max_place = null, places = null",
        "request_cuts set max_place = null",
      ])
        await database.execute(sql.raw(`update millrace.${nulls} where connector_id = 'earlier'`));
      expect(
        (await load()).entries.map(({ entry: { places, firstRows } }) => ({ places, firstRows })),
      ).toEqual([
        { places: [-7n, -8n, -9n], firstRows: [1, 0] },
        { places: [-1_700_000_000_000_002n], firstRows: null },
        { places: [-10n], firstRows: null },
      ]);
      expect((await cuts()).cuts).toEqual([{ ...cut, maxPlace: -9n }]);
      const ids = [1, 2, 3].map(idOf);
      await state.parking.answer("earlier", { kind: "delivered", ids }, null);
      const call = { kind: "sweep", place: 2n ** 150n, version: 9, areCopiesOpen: false } as const;
      await state.parking.answer("earlier", call, null);
      expect((await load()).entries.map(({ entry: { id } }) => id)).toEqual([idOf(2), idOf(3)]);
      expect((await cuts()).cuts).toEqual([]);
    });

    test("what may have arrived is told, also of what an older version parked", async () => {
      const { park, load } = await connector("uncertain");
      await park(message(1), message(2, { mayHaveArrived: true }), message(3, { cause: "exhausted" }));
      const { entries } = await load();
      expect(entries.map(({ mayHaveArrived }) => mayHaveArrived)).toEqual([false, true, true]);
    });

    test("what waited behind another one and was never sent is told from what was", async () => {
      const { park, load } = await connector("untried");
      await park(
        message(1),
        message(2, { cause: "behind", attempts: [] }),
        message(3, { cause: "behind", attempts: [] }),
      );
      const attempts = [{ at: "2026-02-02T00:00:00.000Z", status: 400 }];
      await state.parking.answer(
        "untried",
        { kind: "refused", id: idOf(3), attempts, askedUntil: null },
        null,
      );
      expect((await load()).entries.map(({ isUntried }) => isUntried)).toEqual([false, true, false]);
    });

    test("for how long a message was not tried is told, unless it is to be tried", async () => {
      const { park, load } = await connector("resting");
      const at = new Date(Date.now() - 3_600_000).toISOString();
      await park(message(1, { attempts: [{ at, status: 400 }] }), message(2, { attempts: [] }), message(3));
      await state.parked.ask("resting", { id: idOf(3) });
      const [hour, none, asked] = (await load()).entries.map(({ untriedMs }) => untriedMs);
      expect(hour).toBeWithin(3_600_000 - 60_000, 3_600_000 + 60_000);
      expect(none).toBeWithin(-60_000, 60_000);
      expect(asked).toBeNull();
    });

    test("a wish that was made while an earlier one is tried is kept", async () => {
      const { park, look } = await connector("later");
      await park(message(1), message(2));
      await state.parked.ask("later", {});
      const first = await look();
      await state.parked.ask("later", {});
      const refused = { kind: "refused", id: idOf(1), attempts: [], askedUntil: first.askedUntil } as const;
      await state.parking.answer("later", refused, null);
      await state.parking.answer("later", { kind: "tried", askedUntil: first.askedUntil! }, null);
      expect((await look(first.askedUntil)).wanted).toEqual([idOf(1), idOf(2)]);
    });

    test("what is held is asked for until it was tried, and keeps the time of an earlier wish", async () => {
      const { park, look, load } = await connector("held");
      await park(message(1), message(2, { cause: "behind", attempts: [] }));
      await state.parked.ask("held", { id: idOf(1) });
      const first = await look();
      const held = (n: number) => {
        const attempts = [{ at: "2026-02-02T00:00:00.000Z", status: 429 }];
        return state.parking.answer("held", { kind: "held", id: idOf(n), attempts }, null);
      };
      await held(1);
      expect(await look()).toMatchObject({ wanted: [idOf(1)], askedUntil: first.askedUntil });
      await held(2);
      const { wanted, askedUntil } = await look();
      expect(wanted).toEqual([idOf(1), idOf(2)]);
      expect((await load()).entries.map(({ isUntried, untriedMs }) => [isUntried, untriedMs])).toEqual([
        [false, null],
        [false, null],
      ]);
      await state.parking.answer("held", { kind: "tried", askedUntil: askedUntil! }, null);
      expect((await look()).wanted).toEqual([]);
    });

    test("a run that has seen a wish has seen every one of an earlier time", async () => {
      const { park, look } = await connector("order");
      await park(...Array.from({ length: 40 }, (_, n) => message(n, { hashes: [n] })));
      let [askedUntil, discardedUntil]: (string | null)[] = [null, null];
      const seen = new Set<string>();
      let isOver = false;
      const looking = (async () => {
        for (let isLast = false; !isLast; ) {
          isLast = isOver;
          const wishes: ParkedWishes = await look(askedUntil, discardedUntil);
          askedUntil = wishes.askedUntil ?? askedUntil;
          discardedUntil = wishes.discardedUntil;
          for (const id of [...wishes.wanted, ...wishes.discarded]) seen.add(id);
        }
      })();
      const wish = (n: number) =>
        n % 2 === 0
          ? state.parked.ask("order", { id: idOf(n) })
          : state.parked.discard("order", { id: idOf(n) }, "ann");
      await Promise.all(Array.from({ length: 40 }, (_, n) => wish(n)));
      isOver = true;
      await looking;
      expect(seen.size).toBe(40);
    });

    test("a run under another term stores nothing", async () => {
      await connector("term");
      const call = { kind: "park", messages: [message(1)] } as const;
      const error = await state.parking.answer("term", call, 7).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: "lease_lost" });
      expect((await state.parked.list("term", page)).parked).toEqual([]);
    });
  });
}
