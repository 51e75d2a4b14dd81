import { describe, expect, test } from "bun:test";
import { snapshotRemedy } from "../../../../console/pages/connector/overview/snapshot-remedy.ts";
import type { Relation } from "../../../../src/change/relation.ts";
import { parseTableName } from "../../../../src/cli/text/table-name.ts";
import { silentChangeWarning } from "../../../../src/source/postgres/shapes/column-changes.ts";
import { movedRowsWarning } from "../../../../src/source/postgres/shapes/partition-changes.ts";

const relation = (schema: string, name: string) => ({ schema, name }) as unknown as Relation;
/** What a shell makes of the words of a command. */
const wordsOf = (command: string) =>
  Bun.spawnSync(["sh", "-c", `printf '%s\\0' ${command}`])
    .stdout.toString()
    .split("\0")
    .slice(0, -1);

describe("a copy that a warning asks for", () => {
  test("is a command, and no request of the API", () => {
    const warning = silentChangeWarning(relation("public", "orders"), "column amount was rewritten");
    const { reason, commands } = snapshotRemedy("shop", `${warning} The disk is full.`);
    expect(commands).toEqual(["millrace tasks snapshot shop public.orders"]);
    expect(reason).toEndWith("Create a Snapshot task to repair it. The disk is full.");
  });

  test("names tables of any name, one command for each", () => {
    const names = [
      ["public", "orders"],
      ["My Schema", 'it\'s "$(rm -rf /)" {}'],
      ["ö", 'a.b\\"}}'],
    ] as const;
    const warnings = names.map(([schema, name]) => silentChangeWarning(relation(schema, name), "x"));
    const { commands, reason } = snapshotRemedy("shop", warnings.join(" "));
    expect(commands.map((command) => parseTableName(wordsOf(command)[4] ?? ""))).toEqual(
      names.map(([schema, name]) => ({ schema, name })),
    );
    expect(reason).not.toContain("POST");
  });

  test("removes rows where the warning says so", () => {
    const warning = movedRowsWarning({ relation: relation("public", "visits") } as Parameters<
      typeof movedRowsWarning
    >[0]);
    expect(snapshotRemedy("shop", warning).commands).toEqual([
      "millrace tasks snapshot shop public.visits --truncate",
    ]);
  });

  test("is none where nothing asks for it", () => {
    expect(snapshotRemedy("shop", "The slot is gone.")).toEqual({
      reason: "The slot is gone.",
      commands: [],
    });
  });
});
