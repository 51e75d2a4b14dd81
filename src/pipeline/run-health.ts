// Reports a run's health: its phase, and the warnings that are active in it.

import type { SetAsideTable } from "../sink/sink-events.ts";
import type { Phase, PhaseHealth, RunReporter } from "./run-reporter.ts";
import { describeSetAside } from "./set-aside-warning.ts";
import { StandingWarnings } from "./standing-warnings.ts";

type Report = (health: PhaseHealth) => void;

export class RunHealth {
  readonly #warnings = new StandingWarnings();
  /** Reports in the current phase. */
  #report: Report = () => {};

  constructor(private readonly reporter: Pick<RunReporter, "phase" | "setAside">) {}

  /** A step of the initialization. Warnings are shown with it. */
  step(step: string): void {
    this.enter({ name: "initialize", step });
  }

  /** Another phase begins. Active warnings are shown with it. */
  enter(phase: Phase): void {
    this.#report = (health) => this.reporter.phase(phase, health);
    this.#report({ kind: "start" });
    if (this.#warnings.text !== null) this.goOn();
  }

  /** A table's copy. Warnings are shown with it. */
  phase(phase: Phase, health: PhaseHealth): void {
    this.#report = (other) => this.reporter.phase(phase, other);
    this.#report(health);
  }

  /** Reports something that happens beside the current phase, and then the current phase again. */
  reportMeanwhile(phase: Phase, health: PhaseHealth): void {
    this.reporter.phase(phase, health);
    this.goOn();
  }

  /** Runs work that reports phases of its own. The current phase goes on after it. */
  async within<T>(work: () => Promise<T>): Promise<T> {
    const report = this.#report;
    try {
      return await work();
    } finally {
      this.#report = report;
    }
  }

  warn(topic: string, reason: string | null, commands: readonly string[] = []): void {
    // A warning that is not new must not hide that the run is retrying.
    if (this.#warnings.set(topic, reason, commands)) this.goOn();
  }

  setAside(tables: readonly SetAsideTable[]): void {
    this.reporter.setAside(tables);
    const isNews = this.#warnings.set("sink tables set aside", describeSetAside(tables));
    if (isNews) this.goOn();
  }

  /** The sink tries again by itself. Null: it succeeded. */
  retrying(attempt: number | null, reason: string, inMs?: number): void {
    if (attempt === null) this.goOn();
    else this.#report({ kind: "retry", attempt, reason, ...(inMs !== undefined && { inMs }) });
  }

  /** Reports that the run goes on, with its active warnings. */
  goOn(): void {
    const { text: reason, areOfSink, commands } = this.#warnings;
    this.#report(
      reason === null
        ? { kind: "heartbeat" }
        : {
            kind: "warning",
            reason,
            ...(areOfSink && { isOfSink: true }),
            ...(commands.length > 0 && { commands }),
          },
    );
  }
}
