// The messages between the main thread and a worker thread. Each assignment in the thread belongs to one run; they know
// nothing of each other.

/** main → thread. The first message to an assignment creates it. */
export type ToThread<To> =
  | { readonly type: "message"; readonly assignment: number; readonly message: To }
  /** No further message follows for it. Answered with `stopped`, once nothing of it goes on in the thread. */
  | { readonly type: "stop"; readonly assignment: number }
  /** The thread has no assignment left. */
  | { readonly type: "exit" };

/** thread → main */
export type FromThread<From> =
  /** Loaded and listening. Nothing is sent to a thread before this. */
  | { readonly type: "ready" }
  | { readonly type: "message"; readonly assignment: number; readonly message: From }
  | { readonly type: "stopped"; readonly assignment: number }
  /** The thread is alive. `loopDelayMs`: how late its event loop was at most since the last pulse. */
  | { readonly type: "pulse"; readonly loopDelayMs: number };
