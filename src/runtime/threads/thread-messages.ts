// What passes between the main thread and a worker thread that has seats: the places of runs, which know nothing of each other.

/** main → thread. A seat is there from the first thing it is told. */
export type ToThread<To> =
  | { readonly type: "say"; readonly seat: number; readonly message: To }
  /** Nothing more is said to it. Answered with `left`, as soon as nothing of it goes on in the thread. */
  | { readonly type: "leave"; readonly seat: number }
  /** No seat is left. */
  | { readonly type: "exit" };

/** thread → main */
export type FromThread<From> =
  /** Loaded and listening. Nothing is sent to a thread before. */
  | { readonly type: "ready" }
  | { readonly type: "said"; readonly seat: number; readonly message: From }
  | { readonly type: "left"; readonly seat: number }
  /** The thread is alive; in milliseconds, how late its event loop has been at most since the last one. */
  | { readonly type: "pulse"; readonly loopDelayMs: number };
