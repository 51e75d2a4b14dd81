// A replication worker that does what the connector's name says, for tests of what stands around a worker.

import type { FromReplicationWorker, ToReplicationWorker } from "../../src/runtime/threads/messages.ts";
import { hostSeats, type Seat } from "../../src/runtime/threads/seats.ts";

declare const self: Worker;

type Tell = (message: FromReplicationWorker) => void;

/** These do not leave by themselves. */
const clinging: readonly string[] = ["deaf", "refused"];

/** Does at its start what `script` says. */
function begin(
  script: string,
  { connector, initialized, runId }: Extract<ToReplicationWorker, { type: "start" }>,
  tell: Tell,
  nextRequest: () => number,
): void {
  const status = {
    state: { realtime: { name: initialized ? "again" : "first" } },
    status: { heartbeat: {} },
  };
  tell({ type: "status", component: "Source", status });
  tell({ type: "log", level: "debug", message: "begun", fields: { run: runId } });
  switch (script) {
    case "crash":
      throw new Error("the script says so");
    case "refused":
      tell({
        type: "ended",
        error: { code: "source_authentication_failed", message: "The password is wrong." },
      });
      tell({ type: "log", level: "debug", message: "said", fields: {} });
      break;
    case "unreachable":
      tell({ type: "ended", error: { code: "source_unreachable", message: "Nothing answers." } });
      break;
    case "complete":
      tell({ type: "ended", error: null });
      break;
    case "begin":
      tell({ type: "initialized", requestId: nextRequest() });
      break;
    case "save":
      tell({
        ...{ type: "store.save", owner: "sink", requestId: nextRequest() },
        ...{ text: `record of ${connector.id}`, parts: new Map([["part", "kept"]]) },
      });
      tell({ type: "store.load", owner: "sink", requestId: nextRequest() });
      break;
  }
}

class ScriptedSeat implements Seat<ToReplicationWorker> {
  #script = "";
  #requests = 0;
  readonly #claimed = new Map<number, { taskId: string; name: string }>();

  constructor(private readonly tell: Tell) {}

  hear(message: ToReplicationWorker): void {
    const { tell } = this;
    switch (message.type) {
      case "start":
        this.#script = message.connector.name ?? "stay";
        begin(this.#script, message, tell, () => ++this.#requests);
        break;
      case "stop":
        if (this.#script !== "deaf") tell({ type: "ended", error: null });
        break;
      case "task.offer":
        tell({ type: "task.claim", requestId: ++this.#requests, taskId: message.taskId });
        this.#claimed.set(this.#requests, { taskId: message.taskId, name: message.spec.name });
        break;
      case "reply":
        this.#replied(message);
        break;
      default:
        message satisfies never;
    }
  }

  leave(): Promise<void> {
    if (this.#script === "slow to leave") return Bun.sleep(1_000);
    return clinging.includes(this.#script) ? new Promise(() => {}) : Promise.resolve();
  }

  #replied(reply: Extract<ToReplicationWorker, { type: "reply" }>): void {
    const task = this.#claimed.get(reply.requestId);
    if (!("value" in reply)) return;
    if (task && reply.value === "claimed") work(task, this.tell);
    if (task || !(reply.value instanceof Object)) return;
    const { text, parts } = reply.value;
    const name = `${text}, ${parts.get("part")}`;
    const status = { state: { realtime: { name } }, status: { heartbeat: {} } };
    this.tell({ type: "status", component: "Target", status });
  }
}

/** The table's name says how the task ends. */
function work({ taskId, name }: { taskId: string; name: string }, tell: Tell): void {
  if (name === "hangs") return;
  tell({ type: "task.progress", taskId, rows: 1, bytes: 10, estimatedRows: 5 });
  if (name === "missing") {
    tell({
      type: "task.failed",
      taskId,
      error: { code: "table_unavailable", message: "There is no such table." },
    });
  } else if (name === "flaky") {
    tell({
      type: "task.failed",
      taskId,
      error: { code: "source_connection_lost", message: "The line went dead." },
    });
  } else {
    tell({ type: "task.done", taskId });
  }
}

hostSeats<ToReplicationWorker, FromReplicationWorker>(
  self,
  (main) => new ScriptedSeat((message) => main.tell(message)),
);
