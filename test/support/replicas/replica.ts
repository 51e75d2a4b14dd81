// A replica that runs one connector in a process of its own: it can be frozen, thawed, and asked what it has met. Several of them share a
// ReplicaState, as replicas do that have one Postgres state.

import type { ConnectorRequest } from "../../../src/connector/connector.ts";
import { waitFor } from "../wait-for.ts";
import { type FromReplica, type StateCall, storedRecord, type ToReplica } from "./replica-messages.ts";
import type { ReplicaState } from "./replica-state.ts";

export class Replica implements AsyncDisposable {
  /** `realtime`, `snapshot`, and the others. */
  phase = "none";
  /** Why attempts have failed, oldest first: code and text. */
  failures: readonly string[] = [];
  readonly #stopped = Promise.withResolvers<void>();
  #process!: Bun.Subprocess;

  private constructor(
    readonly term: number,
    private readonly state: ReplicaState,
  ) {}

  /** Takes the connector over, or begins late under `term`, which may be over. */
  static async start(state: ReplicaState, request: ConnectorRequest, term = state.take()): Promise<Replica> {
    const replica = new Replica(term, state);
    const { initialized, createdAt } = state;
    const ready = Promise.withResolvers<void>();
    replica.#process = Bun.spawn(
      [process.execPath, new URL("replica-process.ts", import.meta.url).pathname],
      {
        ipc: (message: FromReplica) => {
          if (message.type === "ready") ready.resolve();
          else replica.#receive(message);
        },
        stdio: ["ignore", "inherit", "inherit"],
      },
    );
    await ready.promise;
    replica.#send({ type: "start", start: { request, term, createdAtMs: createdAt.getTime(), initialized } });
    return replica;
  }

  freeze(): void {
    this.#process.kill("SIGSTOP");
  }

  thaw(): void {
    this.#process.kill("SIGCONT");
  }

  /** It notices that its lease is over. */
  lose(): void {
    this.#send({ type: "lost" });
  }

  async untilPhase(phase: string): Promise<void> {
    await waitFor(`phase ${phase}`, () => this.phase === phase, { timeoutMs: 30_000, intervalMs: 5 }).catch(
      (error: unknown) => {
        throw new Error(`${error}; it is in phase ${this.phase}; failures: ${this.failures.join("; ")}`);
      },
    );
  }

  async untilFailed(code: string, count = 1): Promise<void> {
    const have = () => this.failures.filter((failure) => failure.startsWith(`${code}: `)).length;
    await waitFor(`the failure ${code}`, () => have() >= count, { timeoutMs: 30_000 }).catch(
      (error: unknown) => {
        throw new Error(`${error}; failures: ${this.failures.join("; ")}`);
      },
    );
  }

  async stop(): Promise<void> {
    this.#send({ type: "stop" });
    await this.#stopped.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.#process.exited;
  }

  #send(message: ToReplica): void {
    this.#process.send(message);
  }

  #receive(message: Exclude<FromReplica, { type: "ready" }>): void {
    switch (message.type) {
      case "told":
        this.phase = message.phase;
        this.failures = message.failures;
        break;
      case "call":
        void this.#answer(message.id, message.call);
        break;
      case "stopped":
        this.#stopped.resolve();
        break;
      default:
        message satisfies never;
    }
  }

  async #answer(id: number, call: StateCall): Promise<void> {
    const state = this.state.under(this.term);
    try {
      if (call.what === "load") {
        const record = storedRecord(await state.load(call.owner));
        this.#send({ type: "answer", id, record });
        return;
      }
      if (call.what === "begun") await state.begun();
      else await state.save(call.owner, call.text, new Map(call.parts));
      this.#send({ type: "answer", id, record: null });
    } catch {
      this.#send({ type: "refused", id });
    }
  }
}
