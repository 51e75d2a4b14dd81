// How a run fares, as it is told: its phase, and within it the warnings that stand.

import type { SetAsideTable } from "../sink/sink.ts";
import type { Phase, PhaseHealth, RunReporter } from "./run-reporter.ts";
import { describeSetAside } from "./set-aside-warning.ts";
import { StandingWarnings } from "./standing-warnings.ts";

type Tell = (health: PhaseHealth) => void;

export class RunHealth {
  readonly #warnings = new StandingWarnings();
  /** In the phase of now. */
  #tell: Tell = () => {};

  constructor(private readonly reporter: Pick<RunReporter, "phase" | "setAside">) {}

  /** A step of the beginning; what is warned of meanwhile is shown with it. */
  step(step: string): void {
    this.enter({ name: "initialize", step });
  }

  /** Another phase begins, under what has been warned of. */
  enter(phase: Phase): void {
    this.#tell = (health) => this.reporter.phase(phase, health);
    this.#tell({ kind: "start" });
    if (this.#warnings.text !== null) this.goOn();
  }

  /** A table's copy; what is warned of meanwhile is shown with it. */
  phase(phase: Phase, health: PhaseHealth): void {
    this.#tell = (other) => this.reporter.phase(phase, other);
    this.#tell(health);
  }

  /** What is done beside the phase of now, which is shown again behind it. */
  passing(phase: Phase, health: PhaseHealth): void {
    this.reporter.phase(phase, health);
    this.goOn();
  }

  /** Work within the phase of now, which is shown again behind it. */
  async within<T>(work: () => Promise<T>): Promise<T> {
    const tell = this.#tell;
    try {
      return await work();
    } finally {
      this.#tell = tell;
    }
  }

  warn(topic: string, reason: string | null): void {
    // What is no news says nothing of how the run fares: it may be trying again.
    if (this.#warnings.set(topic, reason)) this.goOn();
  }

  setAside(tables: readonly SetAsideTable[]): void {
    this.reporter.setAside(tables);
    const isNews = this.#warnings.set("tables set aside", describeSetAside(tables));
    if (isNews) this.goOn();
  }

  /** The sink tries again by itself. Null: it succeeded. */
  retrying(attempt: number | null, reason: string): void {
    if (attempt === null) this.goOn();
    else this.#tell({ kind: "retry", attempt, reason });
  }

  /** Shows the run as it goes on, with the warnings that stand. */
  goOn(): void {
    const reason = this.#warnings.text;
    this.#tell(reason === null ? { kind: "heartbeat" } : { kind: "warning", reason });
  }
}
