import { expect, test } from "bun:test";
import { verifyTables } from "../../src/cli/verify-command.ts";
import type { TableState } from "../../src/connector/table-status.ts";
import { type CommandRig, commandRig } from "../support/api/command-rig.ts";

/** A connector with tables in these states, whose comparisons find so many rows changed. */
function connector(states: Readonly<Record<string, TableState>>, changed = 0): CommandRig {
  return commandRig(({ call, body }) => {
    if (call === "GET connectors/orders/tables")
      return Response.json({
        tables: Object.entries(states).map(([name, state]) => ({ schema: "public", name, state })),
      });
    const { Verify } = body as { Verify: { name: string } };
    const result = { rows: 9, missing: 0, extra: 0, changed, repaired: 0, sample: [], as_of_lsn: "0/1A" };
    return Response.json({ id: Verify.name, state: "Done", attempt: 0, spec: { Verify }, result });
  });
}

const verify = (rig: CommandRig, watch: boolean) =>
  verifyTables(rig.context, "orders", undefined, { watch }).catch(({ message }) => message);

test("a table that could not be compared is named, and is no success", async () => {
  const rig = connector({ a: "Streaming", b: "SetAside", c: "Unreadable", d: "Excluded", e: "Waiting" });
  expect(await verify(rig, true)).toBe("Not compared: 3 of 4 tables of the connector.");
  const named = [
    "public.b: not compared, it is set aside",
    "public.c: not compared, the source does not let it be read",
    "public.e: not compared, it waits to be copied",
  ];
  expect(rig.warned).toEqual(named);
  expect(rig.printed.at(-1)).toBe("public.a: 9 rows are equal, as of 0/1A");
  const unwatched = connector({ a: "Streaming", b: "Copying", c: "Resuming" });
  expect(await verify(unwatched, false)).toBeUndefined();
  expect(unwatched.warned).toHaveLength(2);
});

test("all that the connector takes is equal, or what differs is told apart from what was not compared", async () => {
  expect(await verify(connector({ a: "Streaming", d: "Excluded" }), true)).toBeUndefined();
  const message = await verify(connector({ a: "Streaming", b: "SetAside" }, 2), true);
  expect(message).toContain("1 of 1 tables differed from their source.\nNot compared: 1 of 2 tables");
});
