// What a replica that is a process of its own says to the test, and the test to it.

import type { ConnectorRequest } from "../../../src/connector/connector.ts";
import type { SavedRecord } from "../../../src/connector/saved-record.ts";
import type { RecordOwner } from "../../../src/runtime/threads/messages.ts";

/** The first message to it. */
export interface ReplicaStart {
  readonly request: ConnectorRequest;
  readonly term: number;
  readonly createdAtMs: number;
  readonly initialized: boolean;
}

export type StateCall =
  | { readonly what: "begun" }
  | { readonly what: "load"; readonly owner: RecordOwner }
  | {
      readonly what: "save";
      readonly owner: RecordOwner;
      readonly text: string;
      readonly parts: readonly (readonly [string, string | null])[];
    };

export type FromReplica =
  | { readonly type: "ready" }
  | { readonly type: "told"; readonly phase: string; readonly failures: readonly string[] }
  | { readonly type: "call"; readonly id: number; readonly call: StateCall }
  | { readonly type: "stopped" };

export interface StoredRecord {
  readonly text: string;
  readonly parts: readonly (readonly [string, string])[];
}

export type ToReplica =
  | { readonly type: "start"; readonly start: ReplicaStart }
  | { readonly type: "answer"; readonly id: number; readonly record: StoredRecord | null }
  | { readonly type: "refused"; readonly id: number }
  /** The replica has noticed that its lease is over. */
  | { readonly type: "lost" }
  | { readonly type: "stop" };

export function storedRecord(record: SavedRecord | null): StoredRecord | null {
  return record && { text: record.text, parts: [...record.parts] };
}

export function savedRecord(record: StoredRecord | null): SavedRecord | null {
  return record && { text: record.text, parts: new Map(record.parts) };
}
