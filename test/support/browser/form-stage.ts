// What the tests of the connector's form stand on: a source with a table of orders, and the console before it.

import { PostgresServer } from "../servers/postgres-server.ts";
import { ConsoleStage } from "./console-stage.ts";

/** For `beforeAll`: the program may have to be built first. */
export const formStageMs = 240_000;

export class FormStage implements AsyncDisposable {
  private constructor(
    readonly server: PostgresServer,
    readonly console: ConsoleStage,
    private readonly resources: AsyncDisposableStack,
  ) {}

  static async start(): Promise<FormStage> {
    await using resources = new AsyncDisposableStack();
    const server = resources.use(await PostgresServer.start({ settings: { fsync: "off" } }));
    for (const name of ["shop", "warehouse"]) await server.createDatabase(name);
    await server.query(
      "create table orders (id int primary key, item text); insert into orders values (7, 'tea')",
      "shop",
    );
    const stage = resources.use(await ConsoleStage.start());
    return new FormStage(server, stage, resources.move());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.resources.disposeAsync();
  }
}
