// A replication worker that does what the connector's name says, for tests of what stands around a worker.

import { tableOfTask } from "../../../src/connector/task-table.ts";
import { type Assignment, hostAssignments } from "../../../src/runtime/threads/assignments.ts";
import type { FromReplicationWorker, ToReplicationWorker } from "../../../src/runtime/threads/messages.ts";

declare const self: Worker;

type Send = (message: FromReplicationWorker) => void;

/** These do not leave by themselves. */
const clinging: readonly string[] = ["deaf", "refused"];

/** Does at its start what `script` says. */
function begin(
  script: string,
  { connector, initialized, resumes, runId }: Extract<ToReplicationWorker, { type: "start" }>,
  send: Send,
  nextRequest: () => number,
): void {
  const status = {
    state: { realtime: { name: initialized ? "again" : "first" } },
    status: { heartbeat: {} },
  };
  send({ type: "status", component: "Source", status });
  send({ type: "log", level: "debug", message: "begun", fields: { run: runId } });
  switch (script) {
    case "crash":
      throw new Error("the script says so");
    case "refused":
      send({
        type: "ended",
        error: { code: "source_authentication_failed", message: "The password is wrong." },
      });
      send({ type: "log", level: "debug", message: "said", fields: {} });
      break;
    case "unreachable":
      send({ type: "ended", error: { code: "source_unreachable", message: "Nothing answers." } });
      break;
    case "complete":
      send({ type: "ended", error: null });
      break;
    case "lost":
      send({ type: "initialized", requestId: nextRequest() });
      if (!resumes) send({ type: "ended", error: { code: "slot_missing", message: "The slot is gone." } });
      break;
    case "begin":
      send({ type: "initialized", requestId: nextRequest() });
      break;
    case "save":
      send({
        type: "store.save",
        owner: "sink",
        requestId: nextRequest(),
        text: `record of ${connector.id}`,
        parts: new Map([["part", "kept"]]),
        receipts: new Map(),
      });
      send({ type: "store.load", owner: "sink", requestId: nextRequest() });
      break;
  }
}

class ScriptedAssignment implements Assignment<ToReplicationWorker> {
  #script = "";
  #requests = 0;
  readonly #claimed = new Map<number, { taskId: string; name: string }>();

  constructor(private readonly send: Send) {}

  receive(message: ToReplicationWorker): void {
    const { send } = this;
    switch (message.type) {
      case "start":
        this.#script = message.connector.name ?? "stay";
        begin(this.#script, message, send, () => ++this.#requests);
        break;
      case "stop":
        if (this.#script !== "deaf") send({ type: "ended", error: null });
        break;
      case "task.offer":
        send({ type: "task.claim", requestId: ++this.#requests, taskId: message.taskId });
        this.#claimed.set(this.#requests, { taskId: message.taskId, name: tableOfTask(message.spec).name });
        break;
      case "task.cancel":
        break;
      case "reply":
        this.#replied(message);
        break;
      default:
        message satisfies never;
    }
  }

  stop(): Promise<void> {
    if (this.#script === "slow to stop") return Bun.sleep(1_000);
    return clinging.includes(this.#script) ? new Promise(() => {}) : Promise.resolve();
  }

  #replied(reply: Extract<ToReplicationWorker, { type: "reply" }>): void {
    const task = this.#claimed.get(reply.requestId);
    if (!("value" in reply)) return;
    if (task && reply.value === "claimed") work(task, this.send);
    if (task || !(reply.value instanceof Object && "text" in reply.value)) return;
    const { text, parts } = reply.value;
    const name = `${text}, ${parts.get("part")}`;
    const status = { state: { realtime: { name } }, status: { heartbeat: {} } };
    this.send({ type: "status", component: "Target", status });
  }
}

/** The table's name says how the task ends. */
function work({ taskId, name }: { taskId: string; name: string }, send: Send): void {
  if (name === "hangs") return;
  send({ type: "task.progress", taskId, rows: 1, bytes: 10, estimatedRows: 5 });
  if (name === "missing") {
    send({
      type: "task.failed",
      taskId,
      error: { code: "table_unavailable", message: "There is no such table." },
    });
  } else if (name === "flaky") {
    send({
      type: "task.failed",
      taskId,
      error: { code: "source_connection_lost", message: "The line went dead." },
    });
  } else {
    send({ type: "task.done", taskId, result: null });
  }
}

hostAssignments<ToReplicationWorker, FromReplicationWorker>(
  self,
  (main) => new ScriptedAssignment((message) => main.send(message)),
);
