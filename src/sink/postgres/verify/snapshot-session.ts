// A session whose transaction sees a table of the sink as of one place of the stream, and reads digests of its rows.

import type { Client } from "pg";
import { digestSql, scanSettings, scanValues } from "../../../comparison/digest-sql.ts";
import type { DigestScan, RowComparison } from "../../../comparison/row-comparison.ts";
import { copyOut } from "../../../connection/copy/copy-out.ts";
import { closeClient, destroyClient } from "../../../connection/postgres-client.ts";
import { watchSession } from "../../../connection/session-watch.ts";
import type { ApplySession } from "../apply-session.ts";

/** Whoever waits for a lock that this transaction holds would wait until all rows are read: the stream itself, at a TRUNCATE. */
const blockedQuery = `
select from pg_stat_activity a join pg_locks l on l.pid = a.pid and not l.granted and l.relation is not null
where a.wait_event_type = 'Lock' and $1 = any (pg_blocking_pids(a.pid)) limit 1`;

export class SnapshotSession implements AsyncDisposable {
  /** Somebody is about to read, or reads. */
  isTaken = false;
  /** It was broken off, as somebody waited for its lock. */
  isBlocking = false;
  #isReading = false;
  #isClientBusy = false;
  #closed: Promise<void> | null = null;
  readonly #watch: Disposable;
  readonly #abort: () => void;

  /** Takes `client` over. */
  constructor(
    private readonly client: Client,
    private readonly stop: AbortSignal,
    apply: ApplySession,
  ) {
    this.#abort = () => destroyClient(client);
    stop.addEventListener("abort", this.#abort, { once: true });
    this.#watch = watchSession({
      ...apply.watched(client),
      isClientBusy: () => this.#isClientBusy || !this.#isReading,
      onCheck: async (observer, pid) => {
        if ((await observer.query(blockedQuery, [pid])).rowCount === 0) return;
        this.isBlocking = true;
        destroyClient(client);
      },
    });
  }

  /** One reading at a time. The session is broken where it does not come to the end. */
  async *read(
    comparison: RowComparison,
    scan: DigestScan,
    table: Parameters<typeof digestSql>[2],
  ): AsyncGenerator<Uint8Array> {
    const { client } = this;
    if (this.#isReading) throw new Error("the session is reading already");
    this.#isReading = true;
    let isWhole = false;
    try {
      await client.query("savepoint scan");
      await client.query(scanSettings);
      if (scan.kind === "buckets" && scan.range) await client.query("set local enable_seqscan = off");
      for (const { name, value } of scanValues(scan))
        await client.query("select set_config($1, $2, true)", [name, value]);
      const sql = digestSql(comparison, scan, table);
      for await (const chunk of copyOut(client, `copy (${sql}) to stdout (format binary)`)) {
        this.#isClientBusy = true;
        yield chunk;
        this.#isClientBusy = false;
      }
      await client.query("rollback to scan; release scan");
      isWhole = true;
    } finally {
      this.#isReading = false;
      this.#isClientBusy = false;
      if (!isWhole) destroyClient(client);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.stop.removeEventListener("abort", this.#abort);
    this.#watch[Symbol.dispose]();
    this.#closed ??= closeClient(this.client);
    return this.#closed;
  }
}
