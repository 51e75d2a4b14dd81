// Sessions of the state database, for one question or transaction each. What a silent server was asked may still be done when it is
// heard of again: its session is ended before anything else is asked, so that nothing that was told as failed comes behind what was
// told as done.

import { type ClientConfig, Pool, type PoolClient } from "pg";

const applicationName = "millrace state";
const mostSessions = 4;
const restMs = 60_000;
const goodbyeMs = 5_000;
const endMs = 5_000;
const endLookMs = 50;

/** What asks. */
export type StateClient = Pick<PoolClient, "query">;

export class StateSessions implements AsyncDisposable {
  readonly #pool: Pool;
  #free = mostSessions;
  readonly #waiting: (() => void)[] = [];
  /** Process ids of sessions that have not answered. */
  readonly #silent = new Set<number>();

  /** A question that is not answered within `answerMs` fails. */
  constructor(connection: ClientConfig, answerMs: number) {
    this.#pool = new Pool({
      ...connection,
      max: mostSessions,
      idleTimeoutMillis: restMs,
      query_timeout: answerMs,
      application_name: applicationName,
    });
    // A session that ends while nobody asks it is nobody's failure; one that does amid a transaction fails its next statement.
    this.#pool.on("error", () => {});
    this.#pool.on("connect", (client) => client.on("error", () => {}));
  }

  /** Waits for a session as long as others take. */
  async within<Result>(work: (client: StateClient) => Promise<Result>): Promise<Result> {
    await this.#turn();
    try {
      const client = await this.#pool.connect();
      try {
        if (this.#silent.size > 0) await this.#endSilent(client);
        return await work({ query: this.#asking(client) });
      } finally {
        // One that still owes an answer is not to let others wait for that.
        client.release(!isIdle(client));
      }
    } finally {
      this.#next();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.race([this.#pool.end(), Bun.sleep(goodbyeMs)]);
  }

  /** As the client's own; one that does not answer is asked nothing else, no ROLLBACK either. */
  #asking(client: PoolClient): StateClient["query"] {
    const ask = async (...question: Parameters<PoolClient["query"]>) => {
      try {
        return await client.query(...question);
      } catch (error) {
        if (!isUnanswered(error)) throw error;
        this.#silent.add(processIdOf(client));
        breakOff(client);
        throw error;
      }
    };
    // library edge: pg's overloads, of which only those with promises are used.
    return ask as unknown as StateClient["query"];
  }

  async #endSilent(client: PoolClient): Promise<void> {
    const pids = [...this.#silent];
    const theirs =
      "from pg_stat_activity where pid = any($1) and pid <> pg_backend_pid() and application_name = $2";
    await client.query(`select pg_terminate_backend(pid) ${theirs}`, [pids, applicationName]);
    for (const deadline = performance.now() + endMs; ; await Bun.sleep(endLookMs)) {
      const { rowCount } = await client.query(`select ${theirs}`, [pids, applicationName]);
      if (rowCount === 0) break;
      if (performance.now() > deadline) throw new Error("a session that has not answered cannot be ended");
    }
    for (const pid of pids) this.#silent.delete(pid);
  }

  async #turn(): Promise<void> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  #next(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free++;
  }
}

// The driver has no code for it.
function isUnanswered(error: unknown): boolean {
  return error instanceof Error && error.message === "Query read timeout";
}

interface Inside {
  readonly readyForQuery: boolean;
  readonly processID: number;
  readonly connection: { readonly stream: { destroy(): void } };
}

// library edge: what pg knows of a client and does not type.
const inside = (client: PoolClient): Inside => client as unknown as Inside;
/** The server waits for a query. */
const isIdle = (client: PoolClient): boolean => inside(client).readyForQuery;
const processIdOf = (client: PoolClient): number => inside(client).processID;
const breakOff = (client: PoolClient): void => inside(client).connection.stream.destroy();
