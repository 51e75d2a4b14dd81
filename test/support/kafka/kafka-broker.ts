// One process of a test's Kafka cluster: broker and controller in one. It can be killed, frozen and started again on
// the same ports and data.

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { stat } from "node:fs/promises";
import { waitFor } from "../wait-for.ts";
import { javaFlags } from "./java-flags.ts";
import { kafkaJars } from "./kafka-jars.ts";
import type { KafkaTool } from "./kafka-tool.ts";

export class KafkaBroker {
  #process: ChildProcess | null = null;
  /** The log of this launch begins here. */
  #logStart = 0;

  constructor(
    readonly node: number,
    private readonly configFile: string,
    private readonly logFile: string,
    private readonly tool: KafkaTool,
    private readonly heapMegabytes: number,
  ) {}

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  get isRunning(): boolean {
    const child = this.#process;
    return child !== null && child.exitCode === null && child.signalCode === null;
  }

  async launch(): Promise<void> {
    if (this.isRunning) throw new Error(`broker ${this.node} runs already`);
    const jars = await kafkaJars();
    const flags = [
      ...(await javaFlags()),
      `-Xmx${this.heapMegabytes}m`,
      "-Dorg.slf4j.simpleLogger.showDateTime=true",
    ];
    const log = openSync(this.logFile, "a");
    this.#logStart = (await stat(this.logFile)).size;
    const child = spawn("java", [...flags, "-cp", jars, "kafka.Kafka", this.configFile], {
      stdio: ["ignore", log, log],
      detached: true,
    });
    closeSync(log);
    this.#process = child;
    await this.tool.ask("guard", { pid: child.pid });
  }

  /** Rejects with the end of the log if the broker ends, or does not start in time. */
  async untilStarted(): Promise<void> {
    try {
      const outcome = await waitFor(
        `the start of broker ${this.node}`,
        async () => {
          const hasStarted = (await this.#log()).includes("Kafka Server started");
          return hasStarted ? "started" : !this.isRunning && "ended";
        },
        { timeoutMs: 90_000, intervalMs: 50 },
      );
      if (outcome === "ended") throw new Error(`broker ${this.node} ended at its start`);
    } catch (error) {
      throw new Error(`${String(error)}\n${await this.logEnd()}`, { cause: error });
    }
  }

  /** The last of what it said since its launch. */
  async logEnd(): Promise<string> {
    return (await this.#log()).slice(-6_000);
  }

  /** SIGTERM hands leaderships over first; SIGKILL is a crash, also for a broker that is frozen. */
  async end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await exited;
  }

  /** It keeps its connections, and says no more. */
  freeze(): void {
    this.#process?.kill("SIGSTOP");
  }

  thaw(): void {
    this.#process?.kill("SIGCONT");
  }

  async #log(): Promise<string> {
    return await Bun.file(this.logFile).slice(this.#logStart).text();
  }
}
