// Caches idle clients for the next query on the same database. Postgres starts a process for each session, which costs
// many times what a small query does.

import type { Client } from "pg";

/** Per database. */
const maxIdle = 2;

/** SQL that may leave state behind in its session. */
const mayChangeSession = /\b(set|reset|prepare|listen|declare|load|temp|temporary|advisory_lock)\b/i;

export class ClientCache {
  readonly #idle = new Map<string, Client[]>();

  constructor(private readonly connect: (database: string) => Promise<Client>) {}

  /**
   * Calls `use` with a client of the database that nobody else uses meanwhile. `sql` is all the SQL that it will run.
   */
  async with<Result>(
    database: string,
    sql: string,
    use: (client: Client) => Promise<Result>,
  ): Promise<Result> {
    const client = this.#idle.get(database)?.pop() ?? (await this.#open(database));
    try {
      const result = await use(client);
      if (!this.#release(database, client, sql)) await client.end();
      return result;
    } catch (error) {
      await client.end();
      throw error;
    }
  }

  /** Destroys the sockets of the idle clients. It sends no Terminate, because the server may not answer. */
  destroy(): void {
    for (const client of [...this.#idle.values()].flat()) client.connection.stream.destroy();
    this.#idle.clear();
  }

  async #open(database: string): Promise<Client> {
    const client = await this.connect(database);
    client.once("end", () => this.#drop(database, client));
    client.on("error", () => this.#drop(database, client));
    return client;
  }

  #release(database: string, client: Client, sql: string): boolean {
    const idle = this.#idle.get(database) ?? [];
    if (idle.length >= maxIdle || client.getTransactionStatus() !== "I" || mayChangeSession.test(sql))
      return false;
    this.#idle.set(database, [...idle, client]);
    return true;
  }

  #drop(database: string, client: Client): void {
    const idle = this.#idle.get(database)?.filter((each) => each !== client);
    if (idle) this.#idle.set(database, idle);
  }
}
