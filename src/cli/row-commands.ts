// The commands about rows and messages: comparing, sending again, explaining, and what is parked. Their arguments and help.

import type { Command } from "commander";
import { access, addTo, type CommonFlags, run, type WatchFlags } from "./command-frame.ts";
import { explainRow } from "./explain-command.ts";
import {
  type ListFlags,
  listParked,
  moveParked,
  type SelectionFlags,
  showParked,
  watchRetry,
} from "./parked-commands.ts";
import { type ReplayFlags, replayRows } from "./replay-command.ts";
import { type VerifyFlags, verifyTables } from "./verify-command.ts";

const parkedHelp = `
Examples:
  millrace parked list orders                                what the receiver refused, and what waits behind it
  millrace parked show orders <id> --body                    one message, its attempts, and what is sent
  millrace parked retry orders --watch                       all of it, in order; one message: with its id
  millrace parked discard orders --table public.customers --before 2026-01-31T12:00:00Z
${access}`;

const explainHelp = `
Examples:
  millrace explain orders public.orders '{"id":7}'     as limits.receipts_hours of the connector lets it be known
${access}`;

export function addRows(program: Command): void {
  addExplain(program);
  addVerify(program);
  addReplay(program);
}

export function addParked(program: Command): void {
  const parked = program
    .command("parked")
    .description("Lists, shows, sends again and discards messages that a connector has parked.")
    .addHelpText("after", parkedHelp);
  const table = ["--table <name>", "of this table alone: schema.table"] as const;
  const before = ["--before <time>", "parked before this time alone: RFC 3339"] as const;
  addTo(parked, "list <connector>", "What is parked, in the order in which it was.")
    .option(...table)
    .option("--discarded", "what was discarded in the last 7 days, or longer ago")
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
    .option(
      "-w, --watch",
      "show how many are left until none is sent any more; the exit code is 1 if some are parked still",
    )
    .action((connector: string, id: string | undefined, flags: WatchFlags & SelectionFlags) =>
      run(flags, (context) =>
        flags.watch
          ? watchRetry(context, connector, id, flags)
          : moveParked(context, connector, "retry", id, flags),
      ),
    );
  addTo(parked, "discard <connector> [id]", "Drops messages for good; what waits behind them is sent.")
    .option(...table)
    .option(...before)
    .option("--all", "all that is parked")
    .action((connector: string, id: string | undefined, flags: CommonFlags & SelectionFlags) =>
      run(flags, (context) => moveParked(context, connector, "discard", id, flags)),
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
    .option(
      "-w, --watch",
      "wait for the result; the exit code is 1 if something differs, or was not compared",
    )
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
    .option("--all", "the whole table")
    .option("-w, --watch", "wait for the result; the exit code is 1 if a key has no row")
    .addHelpText(
      "after",
      `\nA key is JSON: '{"id": 7}'. A task that has begun to send cannot be cancelled.\n${access}`,
    )
    .action((connector: string, table: string, keys: string[], flags: CommonFlags & ReplayFlags) =>
      run(flags, (context) => replayRows(context, connector, table, keys, flags)),
    );
}
