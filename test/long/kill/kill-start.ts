// The embedded state under `kill -9`, at random moments of a start, of writes and of a key rotation: each death is followed by a
// start that works and holds all that was acknowledged. MILLRACE_KILLS sets how many deaths; with MILLRACE_BURN=1 a process burns
// each core meanwhile, which moves the deaths to other places. MILLRACE_KILL_LANES kills so many services side by side.

import { expect, test } from "bun:test";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { ApiClient } from "../../../src/demo/api-client.ts";
import { ServiceProcess } from "../../../src/demo/service-process.ts";
import { sampleRequest } from "../../support/api/sample-connector.ts";
import { compiledBinary } from "../../support/program/compiled-binary.ts";

const kills = Number(process.env.MILLRACE_KILLS ?? 100);
const lanes = Number(process.env.MILLRACE_KILL_LANES ?? 1);
/** A state of its own for so many deaths: it grows with each. */
const killsPerState = 25;

function burn(): Disposable {
  const cores = process.env.MILLRACE_BURN === "1" ? availableParallelism() : 0;
  const children = Array.from({ length: cores }, () => Bun.spawn([process.execPath, "-e", "for (;;) {}"]));
  return {
    [Symbol.dispose]: () => {
      for (const child of children) child.kill("SIGKILL");
    },
  };
}

class Victim implements AsyncDisposable {
  /** Connectors whose creation was answered. */
  readonly #acknowledged: string[] = [];
  #created = 0;

  private constructor(
    private readonly command: string,
    private readonly directory: string,
    private readonly service: ServiceProcess,
    /** From spawn to ready. */
    private readonly startMs: number,
  ) {}

  static async create(command: string): Promise<Victim> {
    const directory = await mkdtemp(join(tmpdir(), "millrace-kill-"));
    const service = await ServiceProcess.start({ command: [command], dataDirectory: directory });
    await service.stop();
    const begunAt = performance.now();
    await service.launch();
    const startMs = performance.now() - begunAt;
    await service.kill();
    return new Victim(command, directory, service, startMs);
  }

  async dieAmidStart(): Promise<void> {
    this.service.spawn();
    await Bun.sleep(Math.random() * this.startMs * 1.2);
    await this.service.kill();
  }

  async dieAmidWrites(): Promise<void> {
    await this.service.launch();
    const writing = this.#write();
    await Bun.sleep(Math.random() * 300);
    await this.service.kill();
    await writing;
  }

  async dieAmidRotation(): Promise<void> {
    const rotating = Bun.spawn([this.command, "rotate-key", "--data-dir", this.directory], {
      stdout: "ignore",
      stderr: "ignore",
      env: { PATH: process.env.PATH ?? "" },
    });
    await Bun.sleep(Math.random() * this.startMs * 1.4);
    rotating.kill("SIGKILL");
    await rotating.exited;
  }

  /** A start works, and all that was acknowledged is there and can be read. */
  async expectWhole(): Promise<void> {
    await this.service.launch();
    const client = new ApiClient(this.service.url);
    const { connectors } = await client.call<{ connectors: { connector: { id: string } }[] }>(
      "GET",
      "/api/v1/connectors",
    );
    const ids = new Set(connectors.map(({ connector }) => connector.id));
    expect(this.#acknowledged.filter((id) => !ids.has(id))).toEqual([]);
    await this.service.kill();
    const keys = (await readdir(this.directory)).filter((name) => name.startsWith("encryption.key"));
    expect(keys).toEqual(["encryption.key"]);
  }

  async #write(): Promise<void> {
    const client = new ApiClient(this.service.url);
    for (;;) {
      const id = `c${++this.#created}`;
      try {
        await client.createConnector(id, { ...sampleRequest(), id, disabled: true });
      } catch {
        // The service is dead: what came of this one is not known.
        return;
      }
      this.#acknowledged.push(id);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.service.kill();
    await rm(this.directory, { recursive: true, force: true });
  }
}

test(`a state opens after each of ${kills} deaths`, async () => {
  const command = await compiledBinary();
  using _burning = burn();
  const begunAt = performance.now();
  let begun = 0;
  let survived = 0;
  const lane = async () => {
    while (begun < kills) {
      await using victim = await Victim.create(command);
      for (let i = 0; i < killsPerState && begun < kills; i++) {
        const deaths = [
          () => victim.dieAmidStart(),
          () => victim.dieAmidWrites(),
          () => victim.dieAmidRotation(),
        ];
        await deaths[begun++ % deaths.length]!();
        await victim.expectWhole();
        survived++;
      }
      const seconds = Math.round((performance.now() - begunAt) / 1000);
      console.log(`${survived} of ${kills} deaths, after ${seconds} s`);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  expect(survived).toBe(kills);
}, 7_200_000);
