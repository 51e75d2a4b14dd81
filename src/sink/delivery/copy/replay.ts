// Decides which tables' rows can be sent again, and what their idempotency keys have of the replay. Pure.

import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import { type RowMoment, RowPart } from "../../format/idempotency-key.ts";
import { type OperationFilter, sendsAllRows } from "../../format/message-encoding.ts";

/**
 * Why rows of the table cannot be sent again beside the stream; null: they can. The key of a table whose replica identity is an index is that
 * index: so each change tells the key of its row, though not always the primary key.
 */
export function replayBlocker({ relation, coverage }: TableShape, filter: OperationFilter): string | null {
  const name = qualifiedName(relation);
  const { key, replicaIdentity, isKeyedByHash } = relation;
  if (replicaIdentity === "nothing") {
    return `The replica identity of ${name} is NOTHING: the stream brings no UPDATE and no DELETE, so that a row could be sent again after it was changed.`;
  }
  if (key.length === 0 || isKeyedByHash) {
    return `Table ${name} has no key: a receiver could not tell that a row which is sent again is one that it has. Give the table a primary key.`;
  }
  if (coverage?.isUnpublished) {
    return `Changes of ${name} are not published at the moment: what is sent again could be older than what the receiver has.`;
  }
  if (sendsAllRows(filter)) return null;
  return `skipped_operations of the format has "r", "c" or "u": rows of ${name} that are sent again, or come or change meanwhile, would be left out.`;
}

/**
 * Of rows that a replay sends with this version. An attempt that begins anew has another version and other values, so its keys are others too: a
 * receiver that knows the earlier key would drop the newer row. Ids of tasks are UUIDs of version 7: the keys have their time.
 */
export function replayMoment(id: string, version: number): RowMoment {
  const timeMs = /^[0-9a-f]{8}-[0-9a-f]{4}-7/i.test(id)
    ? Number.parseInt(id.slice(0, 13).replace("-", ""), 16)
    : 0;
  const ordinal = Number(BigInt.asUintN(32, Bun.hash.wyhash(`${id} ${version}`) as bigint));
  return { commitTimeUs: timeMs * 1000, ordinal, part: RowPart.replay };
}
