// The commands that call a running service: their names, arguments and help. What they do is in other files.

import type { Command } from "commander";
import { access, addTo, type CommonFlags, run, type WatchFlags } from "./command-frame.ts";
import {
  applyFile,
  commandConnector,
  deleteConnector,
  getConnector,
  listConnectors,
} from "./connector-commands.ts";
import { type FileConnector, readConnectors } from "./connector-file.ts";
import { showDiagnoses } from "./doctor-command.ts";
import { showHealth } from "./health-command.ts";
import { showCatalog, storedConnector, validateConnectors } from "./inspection-commands.ts";
import { addParked, addRows } from "./row-commands.ts";
import { CommandFailure } from "./service-client.ts";
import { listTables } from "./table-commands.ts";
import { createSnapshot, getTask, listTasks, moveTask, type SnapshotFlags } from "./task-commands.ts";
import type { CommandContext } from "./text/terminal.ts";

type FileFlags = CommonFlags & { readonly file?: string };

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
  millrace tasks list orders --watch                          until the newest hundred are over
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
  addTasks(program);
  addRows(program);
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

function addTables(program: Command): void {
  addTo(program, "tables <connector>", "Where each table stands: copied, streamed, set aside or excluded.")
    .addHelpText("after", access)
    .action((connector: string, flags: CommonFlags) =>
      run(flags, (context) => listTables(context, connector)),
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
