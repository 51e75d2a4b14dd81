// One replica of several, with what can be made to fail for it alone: its line to the state, its lines to sources and sinks, its clock.

import { existsSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ApiClient } from "../../../src/demo/api-client.ts";
import { ServiceProcess } from "../../../src/demo/service-process.ts";
import { TcpProxy } from "../../support/servers/tcp-proxy.ts";

export const lineNames = ["source", "sink", "receiver"] as const;
export type LineName = (typeof lineNames)[number];
export type Ports = Readonly<Record<LineName, number>>;
export type Lines = Readonly<Record<LineName, TcpProxy>>;

/** What connectors call source, sink and receiver, where each replica is led to proxies of its own. */
export const hostName = (line: LineName) => `chaos-${line}`;

export interface ReplicaPlan {
  readonly name: string;
  readonly binary: string;
  readonly directory: string;
  readonly statePort: number;
  /** An address of loopback for its own lines, and the ports that they lead to; null: it shares the lines of all. */
  readonly own: { readonly host: string; readonly targets: Ports; readonly ports: Ports } | null;
  readonly shared: Lines;
  readonly hasClock: boolean;
}

const libraries = ["x86_64", "aarch64"].map(
  (machine) => `/usr/lib/${machine}-linux-gnu/faketime/libfaketimeMT.so.1`,
);
/** Of Debian's package `faketime`; undefined: it is not there, and no clock jumps. */
export const fakeTimeLibrary = libraries.find((path) => existsSync(path));

/** Whether a process can have a mount namespace, with a hosts file of its own. */
export async function canIsolate(hostsFile: string): Promise<boolean> {
  if (process.getuid?.() !== 0 || Bun.which("unshare") === null) return false;
  const child = Bun.spawn([...isolated(hostsFile), "true"], { stdout: "ignore", stderr: "ignore" });
  return (await child.exited) === 0;
}

/** What is run behind this sees the hosts file in place of the machine's. */
const isolated = (hostsFile: string) => [
  ...["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hostsFile],
];

export class ChaosReplica implements AsyncDisposable {
  readonly api: ApiClient;
  /** It runs and nothing holds it up, as far as the test does it: it is fit to be sent requests. */
  isAble = true;

  private constructor(
    private readonly owned: AsyncDisposableStack,
    readonly name: string,
    readonly service: ServiceProcess,
    readonly state: TcpProxy,
    readonly lines: Lines,
    private readonly clockFile: string | null,
  ) {
    this.api = new ApiClient(service.url);
  }

  static async start(plan: ReplicaPlan): Promise<ChaosReplica> {
    const { name, directory, own } = plan;
    await using building = new AsyncDisposableStack();
    const state = building.use(await TcpProxy.start(plan.statePort));
    const lines = own ? await ownLines(building, own) : plan.shared;
    const hostsFile = join(directory, `hosts-${name}`);
    if (own) await writeFile(hostsFile, hostsText(own.host));
    const clockFile = plan.hasClock && fakeTimeLibrary ? join(directory, `clock-${name}`) : null;
    if (clockFile) await writeFile(clockFile, "+0");
    const service = building.use(
      await ServiceProcess.start({
        command: [...(own ? isolated(hostsFile) : []), plan.binary],
        workingDirectory: directory,
        dataDirectory: join(directory, name),
        environment: {
          DATABASE_URL: `postgres://postgres@127.0.0.1:${state.port}/postgres`,
          MILLRACE_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString("base64"),
          MILLRACE_REPLICA_ID: name,
          ...(clockFile ? clockEnvironment(clockFile) : {}),
        },
      }),
    );
    return new ChaosReplica(building.move(), name, service, state, lines, clockFile);
  }

  get hasClock(): boolean {
    return this.clockFile !== null;
  }

  /** Its wall clock is so far off from now on, within a second. */
  async setClock(offsetSeconds: number): Promise<void> {
    const sign = offsetSeconds < 0 ? "-" : "+";
    if (this.clockFile) await writeFile(this.clockFile, `${sign}${Math.abs(Math.round(offsetSeconds))}`);
  }

  async kill(): Promise<void> {
    await this.#end(() => this.service.kill());
  }

  async launch(): Promise<void> {
    await this.service.launch();
    this.isAble = true;
  }

  /** In order. */
  async leave(): Promise<void> {
    const { code } = await this.#end(() => this.service.stop(60_000));
    if (code !== 0) throw new Error(`${this.name} was told to stop and ended with ${code}`);
  }

  /** All of its threads stand still. */
  freeze(): void {
    this.isAble = false;
    process.kill(this.service.pid ?? 0, "SIGSTOP");
  }

  thaw(): void {
    process.kill(this.service.pid ?? 0, "SIGCONT");
    this.isAble = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await this.owned.disposeAsync();
  }

  async #end<Result>(how: () => Promise<Result>): Promise<Result> {
    this.isAble = false;
    const { pid } = this.service;
    const result = await how();
    // libfaketime leaves these behind.
    for (const file of ["faketime_shm_", "sem.faketime_sem_"])
      if (this.clockFile) await rm(`/dev/shm/${file}${pid}`, { force: true });
    return result;
  }
}

async function ownLines(
  building: AsyncDisposableStack,
  { host, targets, ports }: NonNullable<ReplicaPlan["own"]>,
): Promise<Lines> {
  const line = async (name: LineName) =>
    building.use(await TcpProxy.start(targets[name], { host, port: ports[name] }));
  return { source: await line("source"), sink: await line("sink"), receiver: await line("receiver") };
}

export function hostsText(host: string): string {
  return ["127.0.0.1 localhost", ...lineNames.map((line) => `${host} ${hostName(line)}`), ""].join("\n");
}

/** Monotonic clocks go on as they are, as they do when an administrator sets the clock. */
const clockEnvironment = (file: string) => ({
  LD_PRELOAD: fakeTimeLibrary ?? "",
  FAKETIME_TIMESTAMP_FILE: file,
  FAKETIME_CACHE_DURATION: "1",
  DONT_FAKE_MONOTONIC: "1",
  FAKETIME_DONT_FAKE_MONOTONIC: "1",
});
