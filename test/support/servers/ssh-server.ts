// SSH servers on loopback for tests of tunnels: Debian's sshd where it is installed, and the one that the ssh2 library
// brings. Both let one user in, by key, and connect to wherever they are asked to.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AuthContext, type Connection, Server, utils } from "ssh2";
import { newSshKeyPair } from "../../../src/api/routes/ssh-key-pair.ts";
import { freePort } from "../../../src/demo/free-port.ts";
import { waitFor } from "../wait-for.ts";
import type { TestKeyPair } from "./ssh-keys.ts";

export type SshServerKind = "ssh2" | "sshd";

const sshdProgram = "/usr/sbin/sshd";

/** What there is on this machine. */
export const sshServerKinds: readonly SshServerKind[] =
  process.platform === "linux" && existsSync(sshdProgram) ? ["ssh2", "sshd"] : ["ssh2"];

export interface SshServer extends AsyncDisposable {
  readonly port: number;
  /** The user that may log in. */
  readonly user: string;
  /** Its host keys, as lines of `known_hosts` without the host. */
  readonly hostKeys: readonly string[];
  /** Logins that succeeded so far. */
  readonly logins: number;
  /** Ends the server and every connection through it. */
  stop(): Promise<void>;
  /** Starts it again, on the same port. */
  launch(): Promise<void>;
}

/** `authorizedKey`: a line of `authorized_keys`. `hostKeys`: the server presents the one whose type is asked for. */
export async function startSshServer(
  kind: SshServerKind,
  authorizedKey: string,
  hostKeys: readonly TestKeyPair[] = [newHostKey()],
): Promise<SshServer> {
  const port = await freePort();
  const server =
    kind === "sshd"
      ? await Sshd.make(port, authorizedKey, hostKeys)
      : new LibraryServer(port, authorizedKey, hostKeys);
  await server.launch();
  return server;
}

function newHostKey(): TestKeyPair {
  const { private_key: privateKey, public_key: publicKey } = newSshKeyPair();
  return { privateKey, publicKey };
}

class LibraryServer implements SshServer {
  readonly user = "tunnel";
  logins = 0;
  #server: Server | null = null;
  readonly #sockets = new Set<Socket>();
  readonly #clients = new Set<Connection>();

  constructor(
    readonly port: number,
    private readonly authorizedKey: string,
    private readonly keys: readonly TestKeyPair[],
  ) {}

  get hostKeys(): readonly string[] {
    return this.keys.map(({ publicKey }) => publicKey);
  }

  async launch(): Promise<void> {
    const hostKeys = this.keys.map(({ privateKey }) => privateKey);
    const server = new Server({ hostKeys }, (client) => this.#serve(client));
    await new Promise<void>((resolve) => server.listen(this.port, "127.0.0.1", resolve));
    this.#server = server;
  }

  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    for (const socket of this.#sockets) socket.destroy();
    // library edge: a connection's socket is private, and its `end` would wait for the client.
    for (const client of this.#clients) (client as unknown as { _sock: Socket })._sock.destroy();
    if (server) await new Promise<void>((resolve) => server.close(() => resolve()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #serve(client: Connection): void {
    this.#clients.add(client);
    client.on("close", () => this.#clients.delete(client));
    client.on("error", () => {});
    client.on("authentication", (context) => {
      if (this.#isWelcome(context)) context.accept();
      else context.reject(["publickey"]);
    });
    client.on("ready", () => {
      this.logins += 1;
    });
    client.on("tcpip", (accept, reject, { destIP, destPort }) => {
      this.#forward(connect(destPort, destIP), accept, reject);
    });
    client.on("openssh.streamlocal" as "tcpip", (accept, reject, info) => {
      this.#forward(connect((info as unknown as { socketPath: string }).socketPath), accept, reject);
    });
  }

  #isWelcome(context: AuthContext): boolean {
    if (context.method !== "publickey" || context.username !== this.user) return false;
    const allowed = utils.parseKey(this.authorizedKey);
    if (allowed instanceof Error || !allowed.getPublicSSH().equals(context.key.data)) return false;
    const { blob, signature, hashAlgo } = context;
    return !signature || (blob !== undefined && allowed.verify(blob, signature, hashAlgo) === true);
  }

  #forward(socket: Socket, accept: () => NodeJS.ReadWriteStream, reject: () => void): void {
    this.#sockets.add(socket);
    let isUp = false;
    socket.once("connect", () => {
      isUp = true;
      const channel = accept();
      channel.on("error", () => {});
      channel.pipe(socket).pipe(channel);
      channel.on("close", () => socket.destroy());
    });
    socket.on("error", () => {
      if (!isUp) reject();
    });
    socket.on("close", () => this.#sockets.delete(socket));
  }
}

/** Runs in the foreground, with a configuration and keys in a directory of its own, as whoever runs the tests. */
class Sshd implements SshServer {
  readonly user = execFileSync("id", ["-un"], { encoding: "utf8" }).trim();
  #process: ChildProcess | null = null;
  #log = "";

  private constructor(
    readonly port: number,
    private readonly directory: string,
    readonly hostKeys: readonly string[],
  ) {}

  static async make(port: number, authorizedKey: string, keys: readonly TestKeyPair[]): Promise<Sshd> {
    const directory = await mkdtemp(join(tmpdir(), "millrace-sshd-"));
    const keyFile = (i: number) => join(directory, `host_key_${i}`);
    for (const [i, { privateKey }] of keys.entries()) {
      await writeFile(keyFile(i), privateKey, { mode: 0o600 });
    }
    await writeFile(join(directory, "authorized_keys"), `${authorizedKey}\n`, { mode: 0o600 });
    const settings = [
      ...[`Port ${port}`, "ListenAddress 127.0.0.1", ...keys.map((_, i) => `HostKey ${keyFile(i)}`)],
      ...[`AuthorizedKeysFile ${join(directory, "authorized_keys")}`, "StrictModes no", "UsePAM no"],
      ...["PidFile none", "PermitRootLogin prohibit-password", "PasswordAuthentication no"],
      ...["KbdInteractiveAuthentication no", "MaxStartups 100"],
    ];
    await writeFile(join(directory, "sshd_config"), `${settings.join("\n")}\n`);
    // Where sshd gives up its privileges; the service's unit makes it otherwise.
    if (process.getuid?.() === 0) await mkdir("/run/sshd", { recursive: true });
    return new Sshd(
      port,
      directory,
      keys.map(({ publicKey }) => publicKey),
    );
  }

  get logins(): number {
    return this.#log.match(/^Accepted publickey/gm)?.length ?? 0;
  }

  async launch(): Promise<void> {
    const child = spawn(sshdProgram, ["-D", "-e", "-f", join(this.directory, "sshd_config")], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    child.stderr?.on("data", (chunk: Buffer) => {
      this.#log += chunk.toString();
    });
    this.#process = child;
    const before = this.#log.length;
    await waitFor("sshd listens", () => {
      if (child.exitCode !== null) throw new Error(`sshd ended: ${this.#log}`);
      return this.#log.slice(before).includes("Server listening");
    });
  }

  async stop(): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (!child?.pid || child.exitCode !== null) return;
    const exited = new Promise((resolve) => child.once("exit", resolve));
    // The processes of the connections outlive their parent.
    for (const pid of [...descendants(child.pid), child.pid]) kill(pid);
    await exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await rm(this.directory, { recursive: true, force: true });
  }
}

function descendants(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
      .split(" ")
      .filter(Boolean)
      .map(Number);
    return children.flatMap((child) => [...descendants(child), child]);
  } catch {
    return [];
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}
