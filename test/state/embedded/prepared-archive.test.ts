// What a first start unpacks: the state's own database alone.

import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { inPglite } from "../../support/runtime/in-pglite.ts";

test("a new state has no database but its own, so that a freeze reaches every transaction's age", async () => {
  await inPglite(async (client, directory) => {
    expect(existsSync(join(directory, "base", "1"))).toBe(false);
    const names = await client.query<{ datname: string }>("select datname from pg_database");
    await client.exec("vacuum (freeze)");
    const oldest = await client.query<{ age: number }>("select max(age(datfrozenxid)) age from pg_database");
    expect(names.rows).toEqual([{ datname: "postgres" }]);
    expect(oldest.rows[0]?.age).toBeLessThan(10);
  });
});
