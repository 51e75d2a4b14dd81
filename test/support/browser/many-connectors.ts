// Connectors of a staged service, and how they change.

import type { GivenConnector } from "../../../src/connector/connector.ts";
import { type SampleList, stepSeconds } from "../../../src/connector/service/samples.ts";
import type { ConnectorStatus } from "../../../src/connector/status.ts";
import type { Stage } from "./staged-service.ts";

const runId = "0199c0de-0000-7000-8000-000000000000";
const stepMs = stepSeconds * 1000;
const aside = {
  schema: "public",
  name: "orders",
  reason: "The column amount has another type at the source.",
  commands: ['ALTER TABLE "public"."orders" ALTER COLUMN "amount" TYPE text;'],
};
const snapshot = {
  tables: 40,
  tables_done: 12,
  rows: 1_250_000,
  bytes: 250_000_000,
  estimated_rows: 9_000_000,
};
const streaming: ConnectorStatus = { state: { realtime: { name: "millrace_x" } }, status: { heartbeat: {} } };

/** One of each state that a reader may meet. */
export const states: Readonly<Record<string, ConnectorStatus>> = {
  failed: {
    ...streaming,
    status: { failed: { reason: "The slot millrace_x is gone: changes since 0/1A2B3C4 are lost." } },
    last_error: { code: "slot_missing", reason: "The slot is gone.", at: "2026-01-01T00:00:00.000Z" },
  },
  retrying: { ...streaming, status: { retry: { attempt: 7, reason: "connect ECONNREFUSED 10.0.0.5:5432" } } },
  aside: { ...streaming, tables_set_aside: [aside] },
  warned: { ...streaming, status: { warning: { reason: "The slot holds back 9 GB of the source's log." } } },
  copying: { state: { snapshot: { name: "public.orders" } }, status: { heartbeat: {} } },
  preparing: {
    state: {
      initialize: { sub_state: "the publication is made", commands: ["CREATE PUBLICATION millrace;"] },
    },
    status: { heartbeat: {} },
  },
  streaming,
  stopped: { state: { shutdown: {} }, status: { complete: {} } },
  disabled: { state: { disabled: {} }, status: { complete: {} } },
};

export class ManyConnectors implements Stage {
  readonly connectors = new Map<string, GivenConnector>();
  #turn = 0;

  /** @param count with ids c-0000 and so on, all of which stream */
  constructor(count: number) {
    for (let index = 0; index < count; index++) this.set(`c-${String(index).padStart(4, "0")}`, streaming);
  }

  /** Adds it, or gives it another status. Returns the event of that. */
  set(id: string, status: ConnectorStatus) {
    const all = { ...status, progress: this.#progress() };
    this.connectors.set(id, { ...entry(id), status: all });
    return { event: "status", data: { connector_id: id, run_id: runId, status: all } };
  }

  /** All of them have other figures. Returns the events of that. */
  changeAll() {
    this.#turn++;
    return [...this.connectors].map(([id, { status }]) => this.set(id, status));
  }

  /** Full rings, and then step by step, so that a page that keeps them does not grow. */
  samples(connectorId: string | null, since: string | null): SampleList {
    const last = Math.floor(Date.now() / stepMs);
    const kept = connectorId === null ? 120 : 720;
    const first = since === null ? last - kept + 1 : Math.floor(Date.parse(since) / stepMs) + 1;
    if (first > last) return { step_seconds: stepSeconds, samples: [] };
    const series = (most: number) =>
      Array.from({ length: last - first + 1 }, (_, n) => Math.abs(Math.sin((first + n) / 9)) * most);
    const ids = connectorId === null ? [...this.connectors.keys()] : [connectorId];
    const [rows_in, bytes_durable, lag_seconds] = [series(5_000), series(900_000), series(3)];
    const measured = { rows_in, rows_durable: rows_in, bytes_durable, lag_seconds, lag_bytes: bytes_durable };
    const first_at = new Date(first * stepMs).toISOString();
    return {
      step_seconds: stepSeconds,
      samples: ids.map((connector_id) => ({ connector_id, first_at, ...measured })),
    };
  }

  #progress() {
    const rows = this.#turn * 1_000;
    return {
      rows_in: rows,
      rows_durable: rows,
      bytes_durable: rows * 90,
      requests: 0,
      snapshot,
      lag_bytes: (this.#turn % 7) * 8_192,
      lag_seconds: this.#turn % 5,
      latency_ms: 12,
      resume_lsn: `0/${(0x1a2b3c + this.#turn).toString(16).toUpperCase()}`,
    };
  }
}

function entry(id: string): Omit<GivenConnector, "status"> {
  const connection = { host: "db.example.com", port: 5432, user: "millrace", password: "***" };
  const known = {
    id,
    name: null,
    disabled: false,
    source: {
      postgres: {
        connection: { ...connection, database: `shop_${id}`, ssl_mode: "Require" },
        replication_type: { logical_replication: {} },
      },
    },
    sink: { postgres: { connection: { ...connection, database: "warehouse", ssl_mode: "Require" } } },
  };
  const given = { connector: known, run_id: runId, created_at: "2026-01-01T00:00:00.000Z" };
  return given as unknown as Omit<GivenConnector, "status">;
}
