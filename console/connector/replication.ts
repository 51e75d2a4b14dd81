// What a connector does with the source's log, and what its sink can be told. Pure.

import type { GivenConnector } from "../../src/connector/connector.ts";
import { sinkKind } from "./endpoints.ts";

type Config = GivenConnector["connector"];

/** It follows the source's log, by a slot. Otherwise it only copies. */
export function streams({ source }: Config): boolean {
  return source.postgres?.replication_type.logical_replication !== undefined;
}

/** It begins with the changes, and copies nothing by itself. */
export function skipsCopies({ source }: Config): boolean {
  return source.postgres?.replication_type.logical_replication?.skip_snapshots === true;
}

/** Rows that the source no longer has can be removed at the sink. */
export function canTruncate(config: Config): boolean {
  return sinkKind(config) === "Postgres";
}

/** The slot of a connector, and of its own publication. */
export function slotOf(id: string): string {
  return `millrace_${id.toLowerCase().replaceAll("-", "_")}`;
}
