// Whether the messages of one table are right, given every change that was made to it. Pure.
//
// Rows of a copy are known by their version, which all rows as of one point share. Every change has a version of its own.

import type { TopicMessage } from "./kafka-reader.ts";
import { type CopiedVersions, KeyCheck, type KeyMessage, type Row } from "./key-check.ts";

export interface TableHistory {
  readonly table: string;
  /** In their order. The first ones insert rows 1, 2 and so on, before anything else. `n`: the row's stamp; null: it is deleted. */
  readonly changes: readonly { readonly id: number; readonly n: number | null }[];
  /** At the source, by now. */
  readonly rows: readonly Row[];
  readonly messages: readonly TopicMessage[];
}

export interface TopicFindings {
  /** Rows of copies that bring what is there already. */
  readonly copiedAgain: number;
  /** Keys that a first copy brought ahead of the stream, before that brought any of their changes. */
  readonly copiedAhead: number;
  /** The same, behind some of their changes: a first copy beside the stream has failed, and the stream waited for the next one. */
  readonly aheadAmidStream: number;
  /** Messages that came again. */
  readonly repeated: number;
}

/** The topic's message, read. */
interface Message extends KeyMessage {
  readonly id: number;
  readonly idempotencyKey: string | null;
  readonly text: string;
}

export function nothingFound() {
  return { copiedAgain: 0, copiedAhead: 0, aheadAmidStream: 0, repeated: 0 };
}

/** `isLoose`: messages may come again, with the same Idempotency-Key and value. */
export function checkTable(
  { table, changes, rows, messages: all }: TableHistory,
  isLoose: boolean,
): TopicFindings & { readonly wrong: readonly string[] } {
  const found = { ...nothingFound(), wrong: [] as string[] };
  const messages = all.map(read);
  const byId = Map.groupBy(changes, ({ id }) => id);
  const copies = new Copies(messages, untouchedRows(changes, byId));
  const once = withoutRepetitions(messages, copies, isLoose, (text) => found.wrong.push(`${table}: ${text}`));
  found.repeated = messages.length - once.length;
  const ofKey = Map.groupBy(once, ({ id }) => id);
  const current = new Map(rows.map((row) => [row.id, row]));
  for (const id of new Set([...byId.keys(), ...ofKey.keys(), ...current.keys()])) {
    const stamps = (byId.get(id) ?? []).map(({ n }) => n);
    const key = new KeyCheck(stamps, ofKey.get(id) ?? [], copies, isLoose);
    const problem = key.problem(current.get(id) ?? null);
    if (problem !== null) found.wrong.push(`${table} ${id}: ${problem}\n${key.told}`);
    found.copiedAgain += key.copiedAgain;
    found.copiedAhead += key.ahead === "before the stream" ? 1 : 0;
    found.aheadAmidStream += key.ahead === "amid the stream" ? 1 : 0;
  }
  return found;
}

/** Versions that several rows share, and what is known of their copies. */
class Copies implements CopiedVersions {
  readonly #ids: ReadonlyMap<number, ReadonlySet<number>>;
  /** Of the first copy that is complete. Those behind it are of tasks, which go beside the stream: they are never ahead of it. */
  readonly #complete: number;

  constructor(messages: readonly Message[], untouched: readonly number[]) {
    const versions = Map.groupBy(
      messages.filter(({ row }) => row !== null),
      ({ row }) => row!.version,
    );
    const copies = [...versions]
      .map(([version, those]) => [version, new Set(those.map(({ id }) => id))] as const)
      .filter(([, ids]) => ids.size > 1);
    this.#ids = new Map(copies);
    const complete = copies.filter(([, ids]) => untouched.every((id) => ids.has(id)));
    this.#complete = Math.min(...complete.map(([version]) => version));
  }

  isCopy(version: number): boolean {
    return this.#ids.has(version);
  }

  mayBeAhead(version: number): boolean {
    return version <= this.#complete;
  }
}

/** Rows that were there from the beginning and never changed: every copy brings them. */
function untouchedRows(
  changes: TableHistory["changes"],
  byId: ReadonlyMap<number, readonly object[]>,
): readonly number[] {
  const others = changes.findIndex(({ id }, index) => id !== index + 1);
  const first = others < 0 ? changes : changes.slice(0, others);
  return first.map(({ id }) => id).filter((id) => byId.get(id)!.length === 1);
}

/** The first of those that came several times; tombstones are left as they are. */
function withoutRepetitions(
  messages: readonly Message[],
  copies: CopiedVersions,
  isLoose: boolean,
  wrong: (text: string) => void,
): readonly Message[] {
  const seen = new Map<string, Message>();
  return messages.filter((message) => {
    const { idempotencyKey: key, row, at, text } = message;
    const before = key === null ? undefined : seen.get(key);
    if (key !== null) seen.set(key, before ?? message);
    if (!before) return true;
    // A first copy that was broken off and begun anew may bring the row as it is by then.
    const isSame = before.text === text;
    if (copies.isCopy(row?.version ?? 0)) return !isLoose || !isSame;
    const places = `at ${before.at.partition}/${before.at.offset} and ${at.partition}/${at.offset}`;
    if (!isLoose) wrong(`${text} is twice, ${places}`);
    else if (!isSame) wrong(`${text} came again as ${before.text} under one Idempotency-Key, ${places}`);
    return !isLoose;
  });
}

function read({ key, value, headers, partition, offset }: TopicMessage): Message {
  const { id } = JSON.parse(String(key)) as { id: number };
  const found = headers.find(([name]) => name === "Idempotency-Key")?.[1];
  const message = { id, at: { partition, offset }, idempotencyKey: found ? String(found) : null };
  if (value === null) return { ...message, row: null, text: "a tombstone" };
  const text = value.toString();
  const row = JSON.parse(text) as Row & { _sm_version: number; _sm_deleted: boolean };
  return { ...message, row: { ...row, version: row._sm_version, isDeleted: row._sm_deleted }, text };
}
