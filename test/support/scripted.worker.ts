// A replication worker that does what the connector's name says, for tests of what stands around a worker.

import type { FromReplicationWorker, ToReplicationWorker } from "../../src/runtime/messages.ts";

declare const self: Worker;

const tell = (message: FromReplicationWorker) => self.postMessage(message);
let script = "";
let requests = 0;

function begin({ connector, initialized, runId }: Extract<ToReplicationWorker, { type: "start" }>): void {
  script = connector.name ?? "stay";
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
      tell({ type: "initialized", requestId: ++requests });
      break;
    case "save":
      tell({
        ...{ type: "store.save", owner: "sink", requestId: ++requests },
        ...{ text: `record of ${connector.id}`, parts: new Map([["part", "kept"]]) },
      });
      tell({ type: "store.load", owner: "sink", requestId: ++requests });
      break;
  }
}

self.onmessage = ({ data: message }: MessageEvent<ToReplicationWorker>) => {
  switch (message.type) {
    case "start":
      begin(message);
      break;
    case "stop":
      if (script !== "deaf") tell({ type: "ended", error: null });
      break;
    case "task.offer":
      tell({ type: "task.claim", requestId: ++requests, taskId: message.taskId });
      claimed.set(requests, { taskId: message.taskId, name: message.spec.name });
      break;
    case "reply": {
      const task = claimed.get(message.requestId);
      if (task && "value" in message && message.value === "claimed") work(task);
      if (!task && "value" in message && message.value instanceof Object) {
        const { text, parts } = message.value;
        const name = `${text}, ${parts.get("part")}`;
        const status = { state: { realtime: { name } }, status: { heartbeat: {} } };
        tell({ type: "status", component: "Target", status });
      }
      break;
    }
    default:
      message satisfies never;
  }
};

const claimed = new Map<number, { taskId: string; name: string }>();

/** The table's name says how the task ends. */
function work({ taskId, name }: { taskId: string; name: string }): void {
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

tell({ type: "ready" });
