// Lets those who ask for an examination while the same one is under way share it: each one opens sessions at sources and sinks, and
// sends requests to webhooks.

import type { DoctorService } from "../api/services.ts";
import type { Diagnosis } from "../connector/service/diagnosis.ts";

interface Examination {
  readonly findings: Promise<readonly Diagnosis[]>;
  /** Ends it, when nobody waits for it any more. */
  readonly end: AbortController;
  waiting: number;
}

export class SharedDoctorService implements DoctorService {
  /** By connector; null: of all. */
  readonly #underWay = new Map<string | null, Examination>();

  constructor(private readonly doctor: DoctorService) {}

  async examine(connectorId: string | null, signal: AbortSignal): Promise<readonly Diagnosis[]> {
    signal.throwIfAborted();
    const examination = this.#underWay.get(connectorId) ?? this.#begin(connectorId);
    examination.waiting += 1;
    const leave = () => this.#leave(connectorId, examination);
    signal.addEventListener("abort", leave, { once: true });
    try {
      return await examination.findings;
    } finally {
      signal.removeEventListener("abort", leave);
      if (!signal.aborted) leave();
    }
  }

  #begin(connectorId: string | null): Examination {
    const end = new AbortController();
    const examination = { findings: this.doctor.examine(connectorId, end.signal), end, waiting: 0 };
    this.#underWay.set(connectorId, examination);
    return examination;
  }

  #leave(connectorId: string | null, examination: Examination): void {
    examination.waiting -= 1;
    if (examination.waiting > 0) return;
    examination.end.abort();
    if (this.#underWay.get(connectorId) === examination) this.#underWay.delete(connectorId);
  }
}
