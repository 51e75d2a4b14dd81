// Replays over the API, under load, for tests of the built program and of Kafka.

import type { Task } from "../../../src/connector/task.ts";
import type { ApiClient } from "../../../src/demo/api-client.ts";
import type { PostgresServer } from "../servers/postgres-server.ts";
import { waitFor } from "../wait-for.ts";

export async function askForReplay(api: ApiClient, connector: string, spec: object): Promise<Task> {
  const Replay = { schema: "public", ...spec };
  return await api.call<Task>("POST", `/api/v1/connectors/${connector}/tasks`, { Replay });
}

export async function untilOver(
  api: ApiClient,
  connector: string,
  id: string,
  timeoutMs = 120_000,
): Promise<Task> {
  const look = async () => {
    const path = `/api/v1/connectors/${connector}/tasks/${id}`;
    const task = await api.call<Task>("GET", path).catch(() => null);
    return (task?.state === "Done" || task?.state === "Failed") && task;
  };
  return await waitFor(`task ${id}`, look, { timeoutMs });
}

/** Of the table `large` in the database `shop`, with these rows. */
export function largeTable(rows: number, fillerBytes: number): string {
  return `create table large (id int primary key, v int not null, filler text);
    insert into large select i, 0, repeat('x', ${fillerBytes}) from generate_series(1, ${rows}) i`;
}

/** Changes and removes rows of it until it is disposed of. */
export function changesOfLarge(server: PostgresServer, rows: number): AsyncDisposable {
  let isOver = false;
  const load = (async () => {
    const client = await server.connect("shop");
    for (let n = 1; !isOver; n++) {
      const id = 1 + Math.floor(Math.random() * rows);
      await client.query(
        `update large set v = ${n} where id = ${id}; delete from large where id = ${(id * 7) % rows}`,
      );
      await Bun.sleep(2);
    }
    await client.end();
  })();
  return {
    [Symbol.asyncDispose]: async () => {
      isOver = true;
      await load;
    },
  };
}

/** What it has, in the order of its keys. */
export async function rowsOfLarge(server: PostgresServer): Promise<readonly { id: number; v: number }[]> {
  return await server.query<{ id: number; v: number }>("select id, v from large order by id", "shop");
}
