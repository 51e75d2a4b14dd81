// The command line: the commands, their arguments and help. What they do is elsewhere.

import { Command } from "commander";
import manifest from "../package.json";
import { addServiceCommands } from "./cli/cli.ts";
import { readSettings } from "./config.ts";
import { toMillraceError } from "./errors/millrace-error.ts";
import { createLog } from "./log.ts";
import { defaults, logLevels, type ServeFlags, settingTable } from "./setting-table.ts";

const { version } = manifest;

const program = new Command("millrace")
  .description(
    "Carries every change of a Postgres database to another Postgres, to Kafka or to an HTTP endpoint, exactly once.",
  )
  .version(`millrace ${version}`, "-v, --version", "Prints the version.")
  .helpCommand(false)
  .showHelpAfterError("Try: millrace --help")
  .addHelpText(
    "after",
    `
A first look:
  millrace demo                 the whole of it, on a Postgres of its own
  millrace serve                the service; then open http://127.0.0.1:3000/ (its API: /swagger)

A first connector, from one Postgres to another:
  curl http://127.0.0.1:3000/api/v1/connectors/orders -H 'content-type: application/json' -d '{
    "id": "orders",
    "source": {"postgres": {
      "connection": {"host": "db1", "user": "millrace", "password": "…", "database": "shop"},
      "replication_type": {"logical_replication": {"publication_name": "millrace"}}}},
    "sink": {"postgres": {
      "connection": {"host": "db2", "user": "millrace", "password": "…", "database": "warehouse"}}}}'
  millrace connectors get orders
The README has the SQL for the roles and the publication.

millrace <command> --help tells more.`,
  );

program
  .command("serve")
  .description("Runs the service: the REST API, and every connector that is stored and not stopped.")
  .option("--host <address>", `address to listen on (default ${defaults.host})`)
  .option("--port <number>", `port to listen on; 0: any free one (default ${defaults.port})`)
  .option("--data-dir <directory>", `where the state and the key file are kept (default ${defaults.dataDir})`)
  .option(
    "--config <file>",
    'connectors to create or replace at the start, as for connectors apply: {"connectors": […]}',
  )
  .option("--log-level <level>", `one of ${logLevels.join(", ")} (default ${defaults.logLevel})`)
  .addHelpText("after", environmentText())
  .action(serve);

addServiceCommands(program);

program
  .command("rotate-key")
  .description(
    "Seals every stored secret under another encryption key. The service is to be stopped meanwhile.",
  )
  .option("--data-dir <directory>", `as for serve (default ${defaults.dataDir})`)
  .addHelpText(
    "after",
    `
Where the key is in the data directory's key file, a new one is made and takes its place. Where it is that of
MILLRACE_ENCRYPTION_KEY, set MILLRACE_NEW_ENCRYPTION_KEY to the new one (openssl rand -base64 32), and
MILLRACE_ENCRYPTION_KEY to it when this has ended. Ended amid its work, it is done wholly or not at all.
A backup of the state is read by the key that it was made under: keep that with the backup.

Examples:
  millrace rotate-key --data-dir /var/lib/millrace
  MILLRACE_NEW_ENCRYPTION_KEY="$(cat new.key)" millrace rotate-key     (with MILLRACE_ENCRYPTION_KEY, DATABASE_URL set)`,
  )
  .action(rotate);

program
  .command("demo")
  .description("Shows and proves the main job on real Postgres servers that it starts and takes down again.")
  .option("--once", "end after the proof, with exit code 0 only if everything was equal")
  .option("--kafka", "write to a Kafka cluster too, which is there already; it needs --brokers")
  .option("--brokers <addresses>", "of that cluster: host:port, with commas between them")
  .addHelpText(
    "after",
    `
It starts a Postgres 17 in a temporary directory and the service beside it, makes two connectors through
the API, loads and changes tables, and compares source and sinks value by value. Ctrl-C ends it.
The Postgres programs come with this project's packages; elsewhere set MILLRACE_POSTGRES_BIN to the
directory that holds postgres and initdb.`,
  )
  .action(demo);

program
  .command("version")
  .description("Prints the version.")
  .action(() => console.log(`millrace ${version}`));

await program.parseAsync();

async function serve(flags: ServeFlags): Promise<void> {
  try {
    const settings = readSettings(flags, process.env);
    const readable = process.stdout.isTTY === true;
    // If the reader of the log goes away, the service must continue.
    process.stdout.on("error", () => {});
    const log = createLog({
      level: settings.logLevel,
      readable,
      write: (line) => process.stdout.write(line),
    });
    // Without what the service loads, the other commands take a quarter of the time.
    const { serveUntilStopped } = await import("./serve-until-stopped.ts");
    process.exitCode = await serveUntilStopped(settings, log, version);
  } catch (error) {
    const { code, message } = toMillraceError(error);
    console.error(`millrace serve: ${message} (${code})`);
    process.exitCode = 1;
  }
  // A handle that a library leaves open must not keep a stopped service alive.
  process.exit();
}

async function rotate(flags: ServeFlags): Promise<void> {
  const { rotateKeyOf } = await import("./rotate-key.ts");
  process.exit(await rotateKeyOf(flags, process.env, console));
}

interface DemoFlags {
  readonly once?: boolean;
  readonly kafka?: boolean;
  readonly brokers?: string;
}

async function demo({ once = false, kafka = false, brokers }: DemoFlags): Promise<void> {
  const addresses = brokers?.split(",").filter((address) => address !== "") ?? [];
  if (kafka !== addresses.length > 0) {
    const way = "millrace demo --kafka --brokers host:port[,host:port…]";
    console.error(
      `millrace demo: --kafka and --brokers go together, for a Kafka cluster that is there: ${way}`,
    );
    process.exit(1);
  }
  const { runDemo } = await import("./demo/demo.ts");
  process.exit(await runDemo({ once, ...(kafka && { brokers: addresses }) }));
}

function environmentText(): string {
  const lines = settingTable.map(({ settings, meaning }) => {
    return `  ${settings.map(({ variable }) => variable).join(", ")}\n      ${meaning}`;
  });
  return `
Environment (flags win over it; secrets have no flag, because others can see a process's arguments):
${lines.join("\n")}

Examples:
  millrace serve --data-dir /var/lib/millrace --config connectors.json
  DATABASE_URL=postgres://millrace@db/state millrace serve --host 0.0.0.0   (with MILLRACE_API_TOKEN set)

Ctrl-C or SIGTERM stops it in order within 10 s; connectors go on where they stopped at the next start.`;
}
