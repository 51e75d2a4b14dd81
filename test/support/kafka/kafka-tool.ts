// Apache's Kafka client, in a process of its own (KafkaTool.java), which also guards the brokers: it kills them and
// removes their directory when this process ends, however it ends.

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { javaFlags } from "./java-flags.ts";
import { kafkaJars, toolClasses } from "./kafka-jars.ts";

interface Pending {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly take: ((records: Buffer) => void) | undefined;
}

/** Length, request, kind. */
const headBytes = 9;
const records = 0;
const result = 1;

export class KafkaTool implements AsyncDisposable {
  readonly #pending = new Map<number, Pending>();
  readonly #exited: Promise<void>;
  #asked = 0;
  #chunks: Buffer[] = [];
  #received = 0;
  /** Bytes before which no frame can be whole. */
  #wanted = headBytes;

  private constructor(
    private readonly child: ChildProcess & { readonly stdin: Writable; readonly stdout: Readable },
  ) {
    this.#exited = new Promise((resolve) => child.once("exit", () => resolve()));
    void this.#exited.then(() => this.#fail(new Error("the tests' Kafka tool has ended")));
    child.stdin.on("error", () => {});
    child.stdout.on("data", (chunk: Buffer) => this.#receive(chunk));
  }

  /** `directory` is removed at the end, with all that the brokers wrote. */
  static async start(directory: string): Promise<KafkaTool> {
    const classPath = `${await kafkaJars()}:${await toolClasses()}`;
    const flags = [...(await javaFlags()), "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"];
    const log = openSync(join(directory, "tool.log"), "a");
    const child = spawn("java", [...flags, "-cp", classPath, "KafkaTool", directory], {
      stdio: ["pipe", "pipe", log],
      detached: true,
    });
    closeSync(log);
    return new KafkaTool(child as KafkaTool["child"]);
  }

  get pid(): number | undefined {
    return this.child.pid;
  }

  /** Rejects with what Apache's client says. `take` is given what comes before the result. */
  async ask(
    operation: string,
    request: Record<string, unknown> = {},
    take?: (records: Buffer) => void,
  ): Promise<unknown> {
    const id = ++this.#asked;
    return await new Promise((resolve, reject) => {
      if (this.child.exitCode !== null || this.child.signalCode !== null) {
        reject(new Error("the tests' Kafka tool has ended"));
        return;
      }
      this.#pending.set(id, { resolve, reject, take });
      this.child.stdin.write(`${JSON.stringify({ id, op: operation, ...request })}\n`);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.child.stdin.end();
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 20_000);
    await this.#exited;
    clearTimeout(timer);
  }

  #receive(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#received += chunk.length;
    if (this.#received < this.#wanted) return;
    let bytes = Buffer.concat(this.#chunks);
    this.#wanted = headBytes;
    while (bytes.length >= headBytes) {
      const end = headBytes + bytes.readInt32BE(0);
      if (bytes.length < end) {
        this.#wanted = end;
        break;
      }
      this.#answer(bytes.readInt32BE(4), bytes.readInt8(8), bytes.subarray(headBytes, end));
      bytes = bytes.subarray(end);
    }
    this.#chunks = [bytes];
    this.#received = bytes.length;
  }

  #answer(id: number, kind: number, content: Buffer): void {
    const pending = this.#pending.get(id);
    if (kind === records) {
      pending?.take?.(content);
      return;
    }
    this.#pending.delete(id);
    if (kind === result) pending?.resolve(JSON.parse(content.toString()));
    else pending?.reject(new Error(content.toString()));
  }

  #fail(error: Error): void {
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
  }
}
