// Our own stream into a sink that discards, in a process of its own.

import { type BenchServers, database } from "./bench-servers.ts";
import type { Contender } from "./contender.ts";
import type { DiscardingCommand, DiscardingReport } from "./discarding-run.ts";
import type { Usage } from "./process-usage.ts";
import { UsageMeter } from "./usage-meter.ts";

export class DiscardingContender implements Contender {
  readonly name = "discard";
  readonly #meter = new UsageMeter();
  readonly #waiting = new Map<DiscardingReport, () => void>();
  #marked = Promise.resolve();
  readonly #child;

  constructor(servers: BenchServers) {
    this.#child = Bun.spawn({
      cmd: [
        process.execPath,
        `${import.meta.dirname}/discarding-run.ts`,
        JSON.stringify(servers.source.connection(database)),
      ],
      stdout: "inherit",
      stderr: "inherit",
      ipc: (report: DiscardingReport) => this.#waiting.get(report)?.(),
    });
  }

  async begin(): Promise<void> {
    await this.#tell("start", "streams");
  }

  async pause(): Promise<void> {
    await this.#tell("stop", "stopped");
  }

  async resume(): Promise<void> {
    this.#marked = this.#told("marked");
    await this.#tell("start", "streams");
  }

  async untilMarked(): Promise<void> {
    await this.#marked;
  }

  async end(): Promise<void> {
    await this.pause();
    await this.#tell("drop", "dropped");
  }

  usage(): Usage | null {
    return this.#meter.read(this.#child.pid);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill();
    await this.#child.exited;
  }

  async #tell(command: DiscardingCommand, answer: DiscardingReport): Promise<void> {
    const told = this.#told(answer);
    this.#child.send(command);
    await told;
  }

  #told(report: DiscardingReport): Promise<void> {
    const told = new Promise<void>((resolve) => this.#waiting.set(report, resolve));
    const ended = this.#child.exited.then((code) => {
      throw new Error(`the discarding run ended with ${code}`);
    });
    return Promise.race([told, ended]);
  }
}
