// Requests of the stream before they are sent. A request is sent once it is durable how far the stream had been received, where time
// ended windows, and which versions copies took before it. So the same requests come again after a restart.

import type { Delivery } from "../order/request-lane.ts";
import type { Scheduler } from "../order/scheduler.ts";
import type { OutgoingRequest } from "./outgoing-request.ts";

export interface SecuredRequestsOptions {
  /** Resolves when the record as it is now is durable. */
  readonly save: () => Promise<void>;
  readonly scheduler: Pick<Scheduler, "submit" | "release">;
  /** Where a request is one row, boundaries decide nothing. */
  readonly cutsMatter: boolean;
  /** Records how far the stream has been received. */
  readonly reach: () => void;
  /** The record could not be saved. */
  readonly failed: (error: unknown) => void;
}

export class SecuredRequests {
  /** They wait for the record to be durable. */
  #blocked: Delivery[] = [];
  #securing: Promise<void> | null = null;
  /** Versions that copies took and that are not durable. What comes after them waits. */
  #unsavedSteps = 0;

  constructor(private readonly options: SecuredRequestsOptions) {}

  /** A copy has taken a version, which the record's next save has. */
  tookVersion(): void {
    this.#unsavedSteps++;
  }

  submit(request: OutgoingRequest, delivered: () => void): void {
    const { scheduler, cutsMatter } = this.options;
    const isBlocked = cutsMatter || this.#unsavedSteps > 0;
    const delivery = scheduler.submit(request, delivered, isBlocked);
    if (!isBlocked) return;
    this.#blocked.push(delivery);
    this.#securing ??= this.#secure();
  }

  /** Many share a save. */
  async #secure(): Promise<void> {
    const { save, scheduler, cutsMatter, reach, failed } = this.options;
    try {
      while (this.#blocked.length > 0) {
        const covered = this.#blocked;
        this.#blocked = [];
        const steps = this.#unsavedSteps;
        if (cutsMatter) reach();
        await save();
        this.#unsavedSteps -= steps;
        for (const delivery of covered) scheduler.release(delivery);
      }
    } catch (error) {
      failed(error);
    } finally {
      this.#securing = null;
    }
  }
}
