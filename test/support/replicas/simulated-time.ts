// Time that a test lets pass: events in the order of their moments, each followed by all that it settles.

import { drainMicrotasks } from "bun:jsc";

interface Event {
  readonly at: number;
  readonly order: number;
  work: (() => void) | null;
}

export class SimulatedTime {
  #now = 0;
  #order = 0;
  /** A binary heap: the earliest first. */
  readonly #events: Event[] = [];

  get now(): number {
    return this.#now;
  }

  /** What it returns prevents the event. */
  at(moment: number, work: () => void): () => void {
    const event: Event = { at: Math.max(moment, this.#now), order: this.#order++, work };
    this.#push(event);
    return () => {
      event.work = null;
    };
  }

  after(ms: number, work: () => void): () => void {
    return this.at(this.#now + ms, work);
  }

  /** Lets time pass until the moment, or until `isDone` after an event. */
  runUntil(moment: number, isDone: () => boolean = () => false): void {
    drainMicrotasks();
    for (let event = this.#events[0]; event && event.at <= moment; event = this.#events[0]) {
      this.#pop();
      if (!event.work) continue;
      this.#now = event.at;
      event.work();
      drainMicrotasks();
      if (isDone()) return;
    }
    this.#now = Math.max(this.#now, moment);
  }

  #push(event: Event): void {
    const heap = this.#events;
    let index = heap.push(event) - 1;
    for (let above = (index - 1) >> 1; index > 0 && isBefore(event, heap[above]!); above = (index - 1) >> 1) {
      heap[index] = heap[above]!;
      index = above;
    }
    heap[index] = event;
  }

  #pop(): void {
    const heap = this.#events;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    let index = 0;
    for (let below = 1; below < heap.length; below = 2 * index + 1) {
      if (below + 1 < heap.length && isBefore(heap[below + 1]!, heap[below]!)) below += 1;
      if (!isBefore(heap[below]!, last)) break;
      heap[index] = heap[below]!;
      index = below;
    }
    heap[index] = last;
  }
}

const isBefore = (a: Event, b: Event) => a.at < b.at || (a.at === b.at && a.order < b.order);
