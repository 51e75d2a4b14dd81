// What a receiver holds of one table. Of native rows by two ways of taking them: as they arrive, and by `_sm_version`; of debezium's
// as they arrive. All take the columns that a row has over what they had of its key, each request once.

import type { ReceivedRequest, WebhookReceiver } from "../webhook/webhook-receiver.ts";

export type HeldRow = Readonly<Record<string, unknown>>;
export type HeldRows = ReadonlyMap<unknown, HeldRow>;

const parsedBodies = new WeakMap<ReceivedRequest, readonly HeldRow[]>();

/** Once for each request: what is looked at again and again would keep the machine busy. */
function parsed(request: ReceivedRequest): readonly HeldRow[] {
  const rows = parsedBodies.get(request) ?? (JSON.parse(request.body) as HeldRow[]);
  parsedBodies.set(request, rows);
  return rows;
}

/** Delivered rows, in the order of arrival; of requests that came again under the same key, the first. */
export function rowsOf(receiver: WebhookReceiver, table: string): readonly HeldRow[] {
  return receiver.deduplicated.filter(({ path }) => path === `/public/${table}`).flatMap(parsed);
}

export function heldInOrder(receiver: WebhookReceiver, table: string, key = "id"): HeldRows {
  return taken(rowsOf(receiver, table), key);
}

export function heldByVersion(receiver: WebhookReceiver, table: string, key = "id"): HeldRows {
  const rows = rowsOf(receiver, table);
  return taken(
    rows.toSorted((a, b) => Number(a._sm_version) - Number(b._sm_version)),
    key,
  );
}

/** A row in debezium form. */
export interface Envelope {
  readonly op: string;
  readonly before: HeldRow | null;
  readonly after: HeldRow | null;
}

/** `rowsOf`, of a connector that sends debezium's form. */
export function envelopesOf(receiver: WebhookReceiver, table: string): readonly Envelope[] {
  return rowsOf(receiver, table) as unknown as readonly Envelope[];
}

export function heldOfEnvelopes(receiver: WebhookReceiver, table: string, key = "id"): HeldRows {
  const held = new Map<unknown, HeldRow>();
  for (const { before, after } of envelopesOf(receiver, table)) {
    if (after) held.set(after[key], { ...held.get(after[key]), ...after });
    else if (before) held.delete(before[key]);
  }
  return held;
}

/** Keys whose rows arrived with a version below one that they had. */
export function keysThatWentBack(rows: readonly HeldRow[], key = "id"): readonly unknown[] {
  const last = new Map<unknown, number>();
  return rows.flatMap((row) => {
    const version = Number(row._sm_version);
    const isBack = version < (last.get(row[key]) ?? 0);
    last.set(row[key], version);
    return isBack ? [row[key]] : [];
  });
}

function taken(rows: readonly HeldRow[], key: string): HeldRows {
  const held = new Map<unknown, HeldRow>();
  for (const { _sm_version: _, _sm_deleted: isDeleted, ...columns } of rows) {
    if (isDeleted) held.delete(columns[key]);
    else held.set(columns[key], { ...held.get(columns[key]), ...columns });
  }
  return held;
}
