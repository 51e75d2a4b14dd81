// The service's state over one of its two databases, for tests of its stores.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openState, type State } from "../../../src/state/open-state.ts";
import { usedMs, usedMsWith } from "../processor-time.ts";
import { PostgresServer } from "../servers/postgres-server.ts";

export const databaseKinds = ["pglite", "postgres"] as const;

const encryptionKey = Buffer.alloc(32, 7).toString("base64");

export class StateOver implements AsyncDisposable {
  private constructor(
    readonly state: State,
    /** As another replica would open it; null: there can be none. */
    readonly openAnother: (() => Promise<State>) | null,
    /** Changes what is stored; null: nobody else can. */
    readonly query: ((text: string) => Promise<unknown>) | null,
    /** What its database has used of the processors, among others. */
    readonly usedMs: () => number,
    private readonly stack: AsyncDisposableStack,
  ) {}

  static async start(kind: (typeof databaseKinds)[number]): Promise<StateOver> {
    await using stack = new AsyncDisposableStack();
    const directory = await mkdtemp(join(tmpdir(), "millrace-test-"));
    stack.defer(() => rm(directory, { recursive: true, force: true }));
    const server = kind === "postgres" ? stack.use(await PostgresServer.start()) : null;
    const databaseUrl = server && `postgres://postgres@127.0.0.1:${server.port}/postgres`;
    const dataDirectory = join(directory, "data");
    const open = () =>
      openState({ databaseUrl, dataDirectory, encryptionKey, instance: crypto.randomUUID() });
    const state = stack.use(await open());
    const owned = stack.move();
    const openAnother = async () => owned.use(await open());
    const query = server && ((text: string) => server.query(text));
    const used = server ? () => usedMsWith(server) : usedMs;
    return new StateOver(state, server && openAnother, query, used, owned);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stack.disposeAsync();
  }
}
