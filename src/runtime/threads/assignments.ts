// The worker thread's side of its assignments: passes messages on to each, and reports when one has stopped.

import { threadPulse } from "../../measure/thread-pulse.ts";
import { MainThreadChannel } from "./main-thread-channel.ts";
import type { FromThread, ToThread } from "./thread-messages.ts";

/** A run's part that executes in a worker thread. Several runs may share a thread. */
export interface Assignment<To> {
  receive(message: To): void;
  /** Ends everything. Resolves when nothing is left in the thread: no session, no request, no timer. Never rejects. */
  stop(): Promise<void>;
}

/** Creates an assignment with the first message to it, and reports from now on that the thread is alive. */
export function hostAssignments<To, From extends { readonly type: string }>(
  thread: Pick<Worker, "onmessage" | "postMessage">,
  create: (main: MainThreadChannel<From>) => Assignment<To>,
): void {
  const assignments = new Map<number, Assignment<To>>();
  const send = (message: FromThread<From>) => thread.postMessage(message);
  const assignmentOf = (id: number): Assignment<To> => {
    const channel = () =>
      new MainThreadChannel<From>((message) => send({ type: "message", assignment: id, message }));
    const assignment = assignments.get(id) ?? create(channel());
    assignments.set(id, assignment);
    return assignment;
  };
  const stop = async (id: number) => {
    await assignments.get(id)?.stop();
    assignments.delete(id);
    send({ type: "stopped", assignment: id });
  };
  thread.onmessage = ({ data }: MessageEvent<ToThread<To>>) => {
    switch (data.type) {
      case "message":
        return assignmentOf(data.assignment).receive(data.message);
      case "stop":
        return void stop(data.assignment);
      case "exit":
        return process.exit(0);
      default:
        data satisfies never;
    }
  };
  threadPulse(
    (loopDelayMs) => send({ type: "pulse", loopDelayMs }),
    () => performance.now(),
  );
  send({ type: "ready" });
}
