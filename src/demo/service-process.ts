// Runs the service as a separate process: starts it, waits until it is ready, stops or kills it, restarts it on the
// same data. The demo, the end-to-end tests and the benchmarks use the service this way, from outside.

import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { freePort } from "./free-port.ts";

export interface ServiceOptions {
  /** Program and arguments before `serve`; see `ownCommand`. */
  readonly command: readonly string[];
  readonly dataDirectory: string;
  readonly workingDirectory?: string;
  /** Variables on top of `inheritedVariables`. Nothing else of this process's environment is passed on. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Called with every line that the service writes. */
  readonly onLine?: (line: string) => void;
}

export interface ServiceExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

const startTimeoutMs = 30_000;
const pollMs = 20;
const maxLogLines = 200;
/** Only these: a variable of the user's shell must not change what a demo or a test shows. */
const inheritedVariables = ["PATH", "HOME", "TMPDIR", "LANG", "TZ"];

/**
 * The command that runs this program again: the compiled binary, or bun with the sources.
 * https://bun.com/docs/bundler/executables
 */
export function ownCommand(): readonly string[] {
  const isCompiled = Bun.main.startsWith("/$bunfs/") || Bun.main.includes("~BUN");
  return isCompiled ? [process.execPath] : [process.execPath, join(import.meta.dirname, "..", "main.ts")];
}

export class ServiceProcess implements AsyncDisposable {
  readonly #lines: string[] = [];
  #child: ChildProcess | null = null;
  #exited: Promise<ServiceExit> = Promise.resolve({ code: null, signal: null });

  private constructor(
    readonly port: number,
    private readonly options: ServiceOptions,
  ) {}

  /** Starts the service on a free port and waits until it is ready. */
  static async start(options: ServiceOptions): Promise<ServiceProcess> {
    const service = await ServiceProcess.spawn(options);
    try {
      await service.untilReady();
      return service;
    } catch (error) {
      await service.kill();
      throw error;
    }
  }

  /** Starts the service on a free port without waiting. */
  static async spawn(options: ServiceOptions): Promise<ServiceProcess> {
    const service = new ServiceProcess(await freePort(), options);
    service.spawn();
    return service;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** The last lines that the service wrote. */
  get log(): string {
    return this.#lines.join("\n");
  }

  /**
   * Starts the service again on the same port and data, and waits until it is ready. Throws with its log if it exits.
   */
  async launch(): Promise<void> {
    this.spawn();
    await this.untilReady();
  }

  /** Starts the service again without waiting. */
  spawn(): void {
    const [program = process.execPath, ...args] = this.options.command;
    const flags = ["--port", String(this.port), "--data-dir", this.options.dataDirectory];
    const child = spawn(program, [...args, "serve", ...flags], {
      cwd: this.options.workingDirectory ?? process.cwd(),
      env: { ...inheritedEnvironment(), ...this.options.environment },
      stdio: ["ignore", "pipe", "pipe"],
      // In its own process group: Ctrl-C in the terminal reaches only the demo, which stops the service in order.
      detached: true,
    });
    this.#child = child;
    this.#exited = new Promise((resolve) => {
      child.once("exit", (code, signal) => resolve({ code, signal }));
      child.once("error", (error) => {
        this.#addLine(String(error));
        resolve({ code: null, signal: null });
      });
    });
    for (const stream of [child.stdout, child.stderr]) this.#readLines(stream);
  }

  /** Waits until `/readyz` answers 200. */
  async untilReady(): Promise<void> {
    const deadline = performance.now() + startTimeoutMs;
    let ended: ServiceExit | null = null;
    this.#exited.then((exit) => {
      ended = exit;
    });
    while (!(await this.#isReady())) {
      if (ended) throw new Error(`the service ended with ${JSON.stringify(ended)}:\n${this.log}`);
      if (performance.now() > deadline) throw new Error(`the service was not ready in time:\n${this.log}`);
      await Bun.sleep(pollMs);
    }
  }

  /** Sends SIGTERM and waits. Sends SIGKILL after `timeoutMs`. */
  async stop(timeoutMs = 15_000): Promise<ServiceExit> {
    const timer = setTimeout(() => this.#child?.kill("SIGKILL"), timeoutMs);
    this.#child?.kill("SIGTERM");
    const exit = await this.#exited;
    clearTimeout(timer);
    this.#child = null;
    return exit;
  }

  /** Sends SIGKILL and waits until the process is gone. */
  async kill(): Promise<void> {
    this.#child?.kill("SIGKILL");
    await this.#exited;
    this.#child = null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #isReady(): Promise<boolean> {
    try {
      const response = await fetch(`${this.url}/readyz`, { signal: AbortSignal.timeout(1000) });
      await response.body?.cancel();
      return response.ok;
    } catch {
      return false;
    }
  }

  #readLines(stream: NodeJS.ReadableStream | null): void {
    let rest = "";
    stream?.on("data", (chunk: Buffer) => {
      const lines = (rest + chunk.toString()).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#addLine(line);
    });
  }

  #addLine(line: string): void {
    this.#lines.push(line);
    if (this.#lines.length > maxLogLines) this.#lines.shift();
    this.options.onLine?.(line);
  }
}

function inheritedEnvironment(): Record<string, string> {
  return Object.fromEntries(
    inheritedVariables.flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}
