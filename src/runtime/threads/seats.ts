// A worker thread's side of its seats: hands each what it is told, and says when it is empty.

import { threadPulse } from "../../measure/thread-pulse.ts";
import { MainThread } from "./main-thread.ts";
import type { FromThread, ToThread } from "./thread-messages.ts";

export interface Seat<To> {
  hear(message: To): void;
  /** Ends what goes on; resolves when nothing of it is left in the thread: no session, no request, no timer. Never rejects. */
  leave(): Promise<void>;
}

/** Opens a seat by the first thing that is said to it, and tells the main thread from now on that the thread lives. */
export function hostSeats<To, From extends { readonly type: string }>(
  thread: Pick<Worker, "onmessage" | "postMessage">,
  open: (main: MainThread<From>) => Seat<To>,
): void {
  const seats = new Map<number, Seat<To>>();
  const tell = (message: FromThread<From>) => thread.postMessage(message);
  const seatOf = (seat: number): Seat<To> => {
    const main = () => new MainThread<From>((message) => tell({ type: "said", seat, message }));
    const there = seats.get(seat) ?? open(main());
    seats.set(seat, there);
    return there;
  };
  const leave = async (seat: number) => {
    await seats.get(seat)?.leave();
    seats.delete(seat);
    tell({ type: "left", seat });
  };
  thread.onmessage = ({ data }: MessageEvent<ToThread<To>>) => {
    switch (data.type) {
      case "say":
        return seatOf(data.seat).hear(data.message);
      case "leave":
        return void leave(data.seat);
      case "exit":
        return process.exit(0);
      default:
        data satisfies never;
    }
  };
  threadPulse(
    (loopDelayMs) => tell({ type: "pulse", loopDelayMs }),
    () => performance.now(),
  );
  tell({ type: "ready" });
}
