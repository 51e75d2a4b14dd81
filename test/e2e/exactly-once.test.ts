// Whoever dies, and whatever reply is lost: each state that a reader of the sink sees, over all tables, is a state that the source
// was in at a commit; none comes after a later one; and in the end it is the last.

import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiClient } from "../../src/demo/api-client.ts";
import { ServiceProcess } from "../../src/demo/service-process.ts";
import { Bank, type BankState, stateSql } from "../support/loads/bank.ts";
import { isWholeMatrix } from "../support/matrix.ts";
import { compiledBinary } from "../support/program/compiled-binary.ts";
import { PostgresServer } from "../support/servers/postgres-server.ts";
import { TcpProxy } from "../support/servers/tcp-proxy.ts";
import { waitFor } from "../support/wait-for.ts";

// Starting servers takes its time on a busy machine.
setDefaultTimeout(180_000);

/** Reads the sink again and again, over one session after the other. */
class Reader {
  /** The last commit that was seen. */
  n = 0;
  reads = 0;
  #failure: unknown = null;

  constructor(
    private readonly sink: PostgresServer,
    private readonly bank: Bank,
  ) {}

  async read(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && this.#failure === null) {
      try {
        await using client = await this.sink.connect("bank");
        while (!signal.aborted && this.#failure === null) {
          const { rows } = await client.query<BankState>(stateSql);
          this.#take(rows[0] as BankState);
          await Bun.sleep(10);
        }
      } catch {
        // The server is gone for the moment.
        await Bun.sleep(20);
      }
    }
  }

  #take(state: BankState): void {
    try {
      this.bank.check(state);
      if (state.n < this.n) throw new Error(`${state.n} is seen after ${this.n}`);
    } catch (error) {
      this.#failure = error;
    }
    this.n = Math.max(this.n, state.n);
    this.reads += 1;
  }

  /** Waits until a later commit than all so far at the source is seen. Throws what was seen wrong. */
  async untilCaughtUp(what: string): Promise<void> {
    const { last } = this.bank;
    const isThere = () => this.#failure !== null || this.n > last;
    await waitFor(`the sink to go on: ${what}`, isThere, { timeoutMs: 60_000 });
    if (this.#failure) throw this.#failure;
  }
}

test("kill -9 of the service, of a backend and of the sink's server, and replies to COMMIT that are lost", async () => {
  await using stack = new AsyncDisposableStack();
  const settings = { fsync: "off" };
  const [command, source, sink] = await Promise.all([
    compiledBinary(),
    PostgresServer.start({ settings }),
    PostgresServer.start({ settings }),
  ]);
  stack.use(source);
  stack.use(sink);
  await source.createDatabase("bank");
  await sink.createDatabase("bank");
  const bank = await Bank.open(stack.use(await source.connect("bank")));
  const proxy = stack.use(await TcpProxy.start(sink.port));
  const dataDirectory = await mkdtemp(join(tmpdir(), "millrace-bank-"));
  stack.defer(() => rm(dataDirectory, { recursive: true, force: true }));
  const service = stack.use(await ServiceProcess.start({ command: [command], dataDirectory }));
  const api = new ApiClient(service.url);
  await api.createConnector("bank", {
    source: {
      postgres: { connection: source.connection("bank"), replication_type: { logical_replication: {} } },
    },
    sink: { postgres: { connection: { ...sink.connection("bank"), port: proxy.port } } },
    // The large transactions come in pieces.
    limits: { cdc: { max_buffer_rows: 400 } },
  });
  await waitFor("the stream", async () => (await api.connector("bank")).status.state.realtime, {
    timeoutMs: 60_000,
  });

  const over = new AbortController();
  const reader = new Reader(sink, bank);
  const working = bank.work(over.signal, 10);
  const reading = reader.read(over.signal);
  try {
    await reader.untilCaughtUp("the load");
    for (let i = 1; i <= (isWholeMatrix ? 4 : 2); i++) {
      await Bun.sleep(Math.random() * 300);
      await service.kill();
      await service.launch();
      await reader.untilCaughtUp("the service was killed");
      await proxy.loseReply("commit", "COMMIT");
      await reader.untilCaughtUp("the reply to COMMIT was lost");
    }
    // The commit whose reply was lost is there as soon as it is made: a session that goes on may not be.
    const applying = await waitFor("a session that applies", async () => {
      const sql = "select pid from pg_stat_activity where application_name like 'millrace apply%'";
      return (await sink.query<{ pid: number }>(sql))[0]?.pid;
    });
    process.kill(applying, "SIGKILL");
    await reader.untilCaughtUp("the backend was killed");
    await sink.stop("kill");
    await waitFor(
      "the sink's server",
      () =>
        sink.launch().then(
          () => true,
          () => false,
        ),
      { timeoutMs: 60_000 },
    );
    await reader.untilCaughtUp("the sink's server was killed");
  } finally {
    over.abort();
    await Promise.all([working, reading]);
  }
  const isLast = async () => (await sink.query<BankState>(stateSql, "bank"))[0]?.n === bank.last;
  await waitFor("the last commit", isLast, { timeoutMs: 60_000 });
  bank.check((await sink.query<BankState>(stateSql, "bank"))[0] as BankState);
  expect(reader.reads).toBeGreaterThan(100);
});
