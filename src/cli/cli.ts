// The commands that call a running service: their names, arguments and help. What they do is in other files.

import type { Command } from "commander";
import {
  applyFile,
  commandConnector,
  deleteConnector,
  getConnector,
  listConnectors,
} from "./connector-commands.ts";
import { type FileConnector, readConnectors } from "./connector-file.ts";
import { showDiagnoses } from "./doctor-command.ts";
import { explainRow } from "./explain-command.ts";
import { showHealth } from "./health-command.ts";
import { showCatalog, storedConnector, validateConnectors } from "./inspection-commands.ts";
import {
  type ListFlags,
  listParked,
  moveParked,
  type SelectionFlags,
  showParked,
} from "./parked-commands.ts";
import { bypassProxy } from "./proxy-bypass.ts";
import { replayRows } from "./replay-command.ts";
import { CommandFailure, defaultUrl, readAccess, ServiceClient } from "./service-client.ts";
import { listTables } from "./table-commands.ts";
import { createSnapshot, getTask, listTasks, moveTask, type SnapshotFlags } from "./task-commands.ts";
import { type CommandContext, ownTerminal } from "./terminal.ts";
import { plainLines } from "./text-table.ts";
import { type VerifyFlags, verifyTables } from "./verify-command.ts";

interface CommonFlags {
  readonly url?: string;
  readonly json?: boolean;
}
type FileFlags = CommonFlags & { readonly file?: string };
type WatchFlags = CommonFlags & { readonly watch?: boolean };

const access = `
The service is asked at --url, MILLRACE_URL or ${defaultUrl} (MILLRACE_PORT), with MILLRACE_API_TOKEN, or MILLRACE_USERNAME and
MILLRACE_PASSWORD. Exit codes: 0 done, 1 refused, failed or wrongly used, 3 no service there.`;

const connectorsHelp = `
Examples:
  millrace connectors list
  millrace connectors apply -f orders.json      one connector, or {"connectors": […]}; \${NAME} in a string is the
                                                environment's NAME, so that passwords need not be in the file
  millrace connectors get orders --json | jq .status
${access}`;

const tasksHelp = `
Examples:
  millrace tasks snapshot orders public.customers --watch     copy one table anew, while the connector goes on
  millrace tasks snapshot orders public.customers --truncate  and remove what the source does not have
  millrace tasks list orders --watch                          until all are over
${access}`;

const parkedHelp = `
Examples:
  millrace parked list orders                                what the receiver refused, and what waits behind it
  millrace parked show orders <id> --body                    one message, its attempts, and what is sent
  millrace parked retry orders                               all of it, in order; one message: with its id
  millrace parked discard orders --table public.customers --before 2026-01-31T12:00:00Z
${access}`;

const explainHelp = `
Examples:
  millrace explain orders public.orders '{"id":7}'     as limits.receipts_hours of the connector lets it be known
${access}`;

const inspectionHelp = `
Examples:
  millrace validate -f orders.json      before it is applied
  millrace validate orders              as it is stored
  millrace catalog orders --json        to be edited, and sent back as the connector's catalog
${access}`;

const doctorHelp = `
Examples:
  millrace doctor              the service, and each of its connectors
  millrace doctor orders       the service, and this connector
  millrace doctor --json | jq '.[] | select(.severity != "ok")'
${access}`;

export function addServiceCommands(program: Command): void {
  addConnectors(program);
  addTables(program);
  addExplain(program);
  addTasks(program);
  addVerify(program);
  addReplay(program);
  addParked(program);
  addInspection(program);
  addDoctor(program);
}

function addConnectors(program: Command): void {
  const connectors = program
    .command("connectors")
    .description("Lists, shows, applies, deletes, starts and stops connectors of a running service.")
    .addHelpText("after", connectorsHelp);
  const add = (usage: string, description: string) => addTo(connectors, usage, description);
  add("list", "All connectors, their phase, health and lag.").action((flags: CommonFlags) =>
    run(flags, listConnectors),
  );
  add("get <id>", "One connector; with --json all of it, secrets left out.").action(
    (id: string, flags: CommonFlags) => run(flags, (context) => getConnector(context, id)),
  );
  add("apply", "Creates the connectors of a file, or replaces those that are there; a mistake changes none.")
    .requiredOption("-f, --file <path>", "JSON; -: standard input")
    .action((flags: FileFlags) => run(flags, async (context) => applyFile(context, await inFile(flags))));
  add(
    "delete <id>",
    "Deletes a connector, with its slot and publication at the source; returns when it is gone.",
  )
    .option("--force", "do not wait for a source that cannot be reached")
    .action((id: string, flags: CommonFlags & { readonly force?: boolean }) =>
      run(flags, (context) => deleteConnector(context, id, flags.force === true)),
    );
  add(
    "reinitialize <id>",
    "Copies everything anew: what is at the sink is replaced, and the slot is made again.",
  ).action((id: string, flags: CommonFlags) =>
    run(flags, (context) => commandConnector(context, id, "ReInitialize")),
  );
  add(
    "resume <id>",
    "Goes on after a lost slot: makes a new one, compares every table with the source, and mends what differs.",
  ).action((id: string, flags: CommonFlags) =>
    run(flags, (context) => commandConnector(context, id, "Resume")),
  );
  for (const what of ["Start", "Stop", "Restart"] as const) {
    add(`${what.toLowerCase()} <id>`, `Gives a connector the command ${what}.`).action(
      (id: string, flags: CommonFlags) => run(flags, (context) => commandConnector(context, id, what)),
    );
  }
}

function addTasks(program: Command): void {
  const tasks = program
    .command("tasks")
    .description("Lists, makes, watches, cancels and retries tasks of a connector.")
    .addHelpText("after", tasksHelp);
  const add = (usage: string, description: string) => addTo(tasks, usage, description);
  const watch = ["-w, --watch", "show its progress until it is over"] as const;
  add("list <connector>", "The most recent 100, newest first.")
    .option(...watch)
    .action((connector: string, flags: WatchFlags) =>
      run(flags, (context) => listTasks(context, connector, flags.watch === true)),
    );
  add("get <connector> <task>", "One task.")
    .option(...watch)
    .action((connector: string, id: string, flags: WatchFlags) =>
      run(flags, (context) => getTask(context, connector, id, flags.watch === true)),
    );
  add("snapshot <connector> <table>", "Copies a table anew, while the connector goes on.")
    .option("--truncate", "remove rows of the sink's table that the source does not have")
    .option("--force-parallel", "in parallel ranges, however small the table is")
    .option(...watch)
    .action((connector: string, table: string, flags: CommonFlags & SnapshotFlags) =>
      run(flags, (context) => createSnapshot(context, connector, table, flags)),
    );
  add("cancel <connector> <task>", "Cancels a task that waits, or a comparison that runs.").action(
    (connector: string, id: string, flags: CommonFlags) =>
      run(flags, (context) => moveTask(context, connector, id, "cancel")),
  );
  add("retry <connector> <task>", "Tries a task that waits or has failed again, now.").action(
    (connector: string, id: string, flags: CommonFlags) =>
      run(flags, (context) => moveTask(context, connector, id, "retry")),
  );
}

function addParked(program: Command): void {
  const parked = program
    .command("parked")
    .description("Lists, shows, sends again and discards messages that a connector has parked.")
    .addHelpText("after", parkedHelp);
  const table = ["--table <name>", "of this table alone: schema.table"] as const;
  const before = ["--before <time>", "parked before this time alone: RFC 3339"] as const;
  addTo(parked, "list <connector>", "What is parked, in the order in which it was.")
    .option(...table)
    .option("--discarded", "what was discarded in the last 7 days")
    .option("--limit <count>", "of a page: 1 to 1000")
    .option("--after <place>", "the page after this place")
    .action((connector: string, flags: CommonFlags & ListFlags) =>
      run(flags, (context) => listParked(context, connector, flags)),
    );
  addTo(parked, "show <connector> <id>", "One message and its attempts.")
    .option("--body", "with what is sent")
    .action((connector: string, id: string, flags: CommonFlags & { readonly body?: boolean }) =>
      run(flags, (context) => showParked(context, connector, id, flags.body === true)),
    );
  addTo(parked, "retry <connector> [id]", "Sends messages again, with all that waits behind them.")
    .option(...table)
    .option(...before)
    .action((connector: string, id: string | undefined, flags: CommonFlags & SelectionFlags) =>
      run(flags, (context) => moveParked(context, connector, "retry", id, flags)),
    );
  addTo(parked, "discard <connector> [id]", "Drops messages for good; what waits behind them is sent.")
    .option(...table)
    .option(...before)
    .option("--all", "all that is parked")
    .action((connector: string, id: string | undefined, flags: CommonFlags & SelectionFlags) =>
      run(flags, (context) => moveParked(context, connector, "discard", id, flags)),
    );
}

function addTables(program: Command): void {
  addTo(program, "tables <connector>", "Where each table stands: copied, streamed, set aside or excluded.")
    .addHelpText("after", access)
    .action((connector: string, flags: CommonFlags) =>
      run(flags, (context) => listTables(context, connector)),
    );
}

function addExplain(program: Command): void {
  addTo(program, "explain <connector> <table> <key>", "What became of a row: delivered, waiting, parked, …")
    .addHelpText("after", explainHelp)
    .action((connector: string, table: string, key: string, flags: CommonFlags) =>
      run(flags, (context) => explainRow(context, connector, table, key)),
    );
}

function addVerify(program: Command): void {
  addTo(program, "verify <connector> [table]", "Compares tables at a Postgres sink with their source, now.")
    .option("--repair <how>", "dry-run: show SQL for what differs; apply: mend exactly the rows that differ")
    .option("--sample <percent>", "compare so many percent of the rows only")
    .option("-w, --watch", "wait for the result; the exit code is 1 if something differs")
    .addHelpText("after", access)
    .action((connector: string, table: string | undefined, flags: CommonFlags & VerifyFlags) =>
      run(flags, (context) => verifyTables(context, connector, table, flags)),
    );
}

function addReplay(program: Command): void {
  addTo(
    program,
    "replay <connector> <table> [keys...]",
    "Sends rows to a webhook or Kafka again, as they are now.",
  )
    .option("-w, --watch", "wait for the result; the exit code is 1 if a key has no row")
    .addHelpText("after", `\nA key is JSON: '{"id": 7}'. Without keys the whole table is sent.\n${access}`)
    .action(
      (connector: string, table: string, keys: string[], flags: CommonFlags & { readonly watch?: boolean }) =>
        run(flags, (context) => replayRows(context, connector, table, keys, flags.watch ?? false)),
    );
}

function addInspection(program: Command): void {
  addTo(program, "validate [id]", "Checks source and sink of a connector, of a file or as it is stored.")
    .option("-f, --file <path>", "JSON, as for connectors apply; -: standard input")
    .addHelpText("after", inspectionHelp)
    .action((id: string | undefined, flags: FileFlags) =>
      run(flags, async (context) => validateConnectors(context, await named(context, id, flags))),
    );
  addTo(program, "catalog [id]", "Shows the tables and columns of a connector's source.")
    .option("-f, --file <path>", "JSON with one connector, as for connectors apply; -: standard input")
    .addHelpText("after", inspectionHelp)
    .action((id: string | undefined, flags: FileFlags) =>
      run(flags, async (context) => {
        const [connector, ...others] = await named(context, id, flags);
        if (!connector || others.length > 0) throw new CommandFailure("The file must hold one connector.");
        await showCatalog(context, connector);
      }),
    );
}

function addDoctor(program: Command): void {
  addTo(program, "health", "Whether the service is ready, by its exit code.").action((flags: CommonFlags) =>
    run(flags, showHealth),
  );
  addTo(program, "doctor [id]", "Finds out what is wrong and how to fix it. It changes nothing.")
    .option(
      "--data-dir <path>",
      "the data directory to check if no service answers (default MILLRACE_DATA_DIR, or ./data)",
    )
    .addHelpText("after", doctorHelp)
    .action((id: string | undefined, flags: CommonFlags & { readonly dataDir?: string }) =>
      run(flags, (context) =>
        showDiagnoses(context, id, flags.dataDir ?? process.env.MILLRACE_DATA_DIR ?? "./data"),
      ),
    );
}

function addTo(command: Command, usage: string, description: string): Command {
  return command
    .command(usage)
    .description(description)
    .option("--url <address>", `the service (default ${defaultUrl})`)
    .option("--json", "for programs");
}

async function named(
  { client }: CommandContext,
  id: string | undefined,
  flags: FileFlags,
): Promise<readonly FileConnector[]> {
  if ((id === undefined) === (flags.file === undefined)) {
    throw new CommandFailure("Name a connector that is stored, or a file by -f; not both.");
  }
  return id === undefined ? await inFile(flags) : [await storedConnector(client, id)];
}

async function inFile({ file = "-" }: FileFlags): Promise<readonly FileConnector[]> {
  return await readConnectors(file, process.env);
}

async function run(
  { url, json = false }: CommonFlags,
  work: (context: CommandContext) => Promise<void>,
): Promise<void> {
  try {
    const access = readAccess(url, process.env);
    bypassProxy(access.url, process.env);
    await work({ client: new ServiceClient(access), terminal: ownTerminal(), json });
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    console.error(plainLines(`millrace: ${error.message}`));
    process.exitCode = error.exitCode;
  }
}
