// Round after round, until one breaks a law or the rounds are over; and what is counted of them.

export interface ChaosOptions {
  readonly rounds: number;
  /** The first one. */
  readonly from: number;
  readonly seed: number;
  /** Of the faults, those whose name holds this. */
  readonly only: string;
}

/** From when the last fault is over until what is written then is at the sinks. */
export const recoveryBoundMs = 120_000;

export class Tally {
  readonly recoveries: number[] = [];
  /** Faults by name. */
  readonly counts = new Map<string, number>();
  transactions = 0;
  /** Tables of which a status asked for a task. */
  mended = 0;
  equalRounds = 0;

  get faults(): string {
    const sum = [...this.counts.values()].reduce((a, b) => a + b, 0);
    return `${sum} faults of ${this.counts.size} kinds, ${this.transactions.toLocaleString("en-US")} transactions`;
  }
}

export interface Rounds {
  play(round: number): Promise<void>;
  describeFailure(): Promise<void>;
}

/** Returns whether all went well. */
export async function playRounds(
  { rounds, from, seed }: ChaosOptions,
  { play, describeFailure }: Rounds,
): Promise<boolean> {
  for (let round = from; round <= rounds; round++) {
    try {
      await play(round);
    } catch (error) {
      const text = error instanceof Error ? error.message : error;
      console.log(`\nround ${round} of seed ${seed} has failed: ${text}`);
      await describeFailure();
      return false;
    }
  }
  return true;
}
