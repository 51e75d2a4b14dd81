// The process of a replica: one connector's run, and a state that the test keeps. The test can freeze it, which stops all of its threads.

import type { SavedRecord } from "../../../src/connector/saved-record.ts";
import { leaseLost } from "../../../src/errors/lease-lost.ts";
import { LiveRun, type LiveState } from "../runtime/live-run.ts";
import {
  type FromReplica,
  type ReplicaStart,
  type StateCall,
  savedRecord,
  type ToReplica,
} from "./replica-messages.ts";

const toldEveryMs = 20;

const waiting = new Map<number, PromiseWithResolvers<SavedRecord | null>>();
let calls = 0;
let mayRun = true;
let run: LiveRun | null = null;

const say = (message: FromReplica) => process.send?.(message);

function ask(call: StateCall): Promise<SavedRecord | null> {
  const id = ++calls;
  const answer = Promise.withResolvers<SavedRecord | null>();
  waiting.set(id, answer);
  say({ type: "call", id, call });
  return answer.promise;
}

function stateOf(initialized: boolean): LiveState {
  let isBegun = initialized;
  return {
    get initialized() {
      return isBegun;
    },
    async begun() {
      await ask({ what: "begun" });
      isBegun = true;
    },
    load: (owner) => ask({ what: "load", owner }),
    async save(owner, text, parts) {
      await ask({ what: "save", owner, text, parts: [...parts] });
    },
  };
}

function begin({ request, term, createdAtMs, initialized }: ReplicaStart): LiveRun {
  const lease = {
    term,
    createdAt: new Date(createdAtMs),
    state: stateOf(initialized),
    mayRun: () => mayRun,
  };
  return LiveRun.under(lease, request);
}

function tell(): void {
  const [phase = "none"] = Object.keys(run?.status?.state ?? {});
  const failures = run?.failures.map(({ error }) => `${error.code}: ${error.message}`) ?? [];
  say({ type: "told", phase, failures });
}

process.on("message", async (message: ToReplica) => {
  switch (message.type) {
    case "start":
      run = begin(message.start);
      setInterval(tell, toldEveryMs);
      break;
    case "answer":
      waiting.get(message.id)?.resolve(savedRecord(message.record));
      break;
    case "refused":
      waiting.get(message.id)?.reject(leaseLost());
      break;
    case "lost":
      mayRun = false;
      break;
    case "stop":
      await run?.stop();
      tell();
      say({ type: "stopped" });
      break;
    default:
      message satisfies never;
  }
});
say({ type: "ready" });
