// Clients that are kept for the next query of their database: a session of Postgres is a process, whose start costs many times what a
// small query does.

import type { Client } from "pg";

/** Of one database. */
const mostKept = 2;

/** What may leave something behind in a session. */
const changesSession = /\b(set|reset|prepare|listen|declare|load|temp|temporary|advisory_lock)\b/i;

export class KeptClients {
  readonly #kept = new Map<string, Client[]>();

  constructor(private readonly connect: (database: string) => Promise<Client>) {}

  /** As `use` with a client of the database that nobody else uses meanwhile. `sql`: all that it is used for. */
  async with<Result>(
    database: string,
    sql: string,
    use: (client: Client) => Promise<Result>,
  ): Promise<Result> {
    const client = this.#kept.get(database)?.pop() ?? (await this.#open(database));
    try {
      const result = await use(client);
      if (!this.#keep(database, client, sql)) await client.end();
      return result;
    } catch (error) {
      await client.end();
      throw error;
    }
  }

  /** Leaves those that are kept, without a word to a server that may not answer. */
  leave(): void {
    for (const client of [...this.#kept.values()].flat()) client.connection.stream.destroy();
    this.#kept.clear();
  }

  async #open(database: string): Promise<Client> {
    const client = await this.connect(database);
    client.once("end", () => this.#drop(database, client));
    client.on("error", () => this.#drop(database, client));
    return client;
  }

  #keep(database: string, client: Client, sql: string): boolean {
    const kept = this.#kept.get(database) ?? [];
    if (kept.length >= mostKept || client.getTransactionStatus() !== "I" || changesSession.test(sql))
      return false;
    this.#kept.set(database, [...kept, client]);
    return true;
  }

  #drop(database: string, client: Client): void {
    const kept = this.#kept.get(database)?.filter((each) => each !== client);
    if (kept) this.#kept.set(database, kept);
  }
}
