// Watching tasks, over a service that goes away, and a connector that does not run.

import { expect, test } from "bun:test";
import { deleteConnector } from "../../src/cli/connector-commands.ts";
import type { CommandFailure } from "../../src/cli/service-client.ts";
import { untilOver } from "../../src/cli/task-commands.ts";
import type { ConnectorStatus } from "../../src/connector/status.ts";
import type { Task } from "../../src/connector/task.ts";
import { type CommandRig, commandRig } from "../support/api/command-rig.ts";

const task = (state: Task["state"]): Task => ({
  id: "t1",
  state,
  attempt: 0,
  created_at: "2026-01-01T00:00:00.000Z",
  spec: {
    Snapshot: { database: "shop", schema: "public", name: "t", truncate: false, force_parallel: false },
  },
});
const unavailable = () =>
  Response.json({ code: "state_unavailable", detail: "The state cannot be reached." }, { status: 503 });
const watch = ({ context }: CommandRig) =>
  untilOver(context, "orders", [task("Pending")]).then(
    () => ({ exitCode: 0, message: "" }),
    (error: CommandFailure) => error,
  );
const goOn = "Not over: t1. To go on watching: millrace tasks list orders --watch";

test.concurrent.each<readonly [string, Pick<ConnectorStatus, "state" | "status">, string]>([
  ["stopped", { state: { shutdown: {} }, status: { complete: {} } }, "millrace connectors start orders"],
  ["disabled", { state: { disabled: {} }, status: { complete: {} } }, "until it no longer is"],
  ["failed", { state: { realtime: { name: "s" } }, status: { failed: { reason: "no slot" } } }, "no slot"],
])("a task of a connector that is %s is not waited for", async (_, status, said) => {
  const rig = commandRig(({ call }) =>
    Response.json(
      call === "GET connectors/orders" ? { connector: { id: "orders" }, status } : task("Pending"),
    ),
  );
  const { exitCode, message } = await watch(rig);
  expect(exitCode).toBe(1);
  expect(message).toContain(said);
  expect(message).toContain(goOn);
});

test("a service that is away for a moment is asked again", async () => {
  const answers = [() => null, unavailable, () => new Response("upgrading", { status: 502 })];
  const rig = commandRig((_, count) => (answers[count - 1] ?? (() => Response.json(task("Done"))))(), {
    forMs: 5_000,
    everyMs: 1,
  });
  expect(await watch(rig)).toEqual({ exitCode: 0, message: "" });
  expect(rig.requests).toHaveLength(4);
});

test("of one that stays away the task's id is left", async () => {
  const gone = await watch(commandRig(() => null, { forMs: 20, everyMs: 1 }));
  expect(gone.exitCode).toBe(3);
  expect(gone.message).toStartWith("No service answers at");
  expect(gone.message).toEndWith(goOn);
  const without = await watch(commandRig(unavailable, { forMs: 20, everyMs: 1 }));
  expect([without.exitCode, without.message]).toEqual([1, `The state cannot be reached.\n${goOn}`]);
});

test("a deletion is waited for while the service is away", async () => {
  const answers = [() => new Response(null, { status: 202 }), () => null, unavailable];
  const rig = commandRig((_, count) => (answers[count - 1] ?? (() => Response.json({}, { status: 404 })))(), {
    forMs: 5_000,
    everyMs: 1,
  });
  await deleteConnector(rig.context, "orders", false);
  expect(rig.printed).toEqual(["orders: deleted"]);
});
