// Our own stream into a sink that discards everything, in a separate process.

import { type BenchServers, database } from "../bench-servers.ts";
import type { Usage } from "../measure/process-usage.ts";
import { UsageMeter } from "../measure/usage-meter.ts";
import type { Contender } from "./contender.ts";
import type { DiscardingCommand, DiscardingReport } from "./discarding-run.ts";

export class DiscardingContender implements Contender {
  readonly name = "discard";
  readonly #meter = new UsageMeter();
  readonly #waiting = new Map<DiscardingReport, () => void>();
  #markerArrived = Promise.resolve();
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
    await this.#send("start", "streams");
  }

  async pause(): Promise<void> {
    await this.#send("stop", "stopped");
  }

  async resume(): Promise<void> {
    this.#markerArrived = this.#received("markerArrived");
    await this.#send("start", "streams");
  }

  async untilMarkerArrives(): Promise<void> {
    await this.#markerArrived;
  }

  async end(): Promise<void> {
    await this.pause();
    await this.#send("drop", "dropped");
  }

  usage(): Usage | null {
    return this.#meter.read(this.#child.pid);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill();
    await this.#child.exited;
  }

  async #send(command: DiscardingCommand, expected: DiscardingReport): Promise<void> {
    const received = this.#received(expected);
    this.#child.send(command);
    await received;
  }

  #received(report: DiscardingReport): Promise<void> {
    const received = new Promise<void>((resolve) => this.#waiting.set(report, resolve));
    const ended = this.#child.exited.then((code) => {
      throw new Error(`the discarding run ended with ${code}`);
    });
    return Promise.race([received, ended]);
  }
}
