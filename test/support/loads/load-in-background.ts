// Write load on a stage's source beside what a test does.

import type { DemoStage } from "../../../src/demo/demo-stage.ts";
import { runLoad } from "../../../src/demo/shop-load.ts";

export interface BackgroundLoad extends AsyncDisposable {
  /** Transactions that were committed so far. */
  readonly transactions: number;
}

/** Runs until it is disposed of. */
export async function loadInBackground(stage: DemoStage, pauseMs: number): Promise<BackgroundLoad> {
  const client = await stage.connectToSource();
  const over = new AbortController();
  let transactions = 0;
  const onCommit = () => {
    transactions += 1;
  };
  const loading = runLoad(client, { pauseMs, signal: over.signal, onCommit });
  return {
    get transactions() {
      return transactions;
    },
    async [Symbol.asyncDispose]() {
      over.abort();
      await loading;
      await client.end();
    },
  };
}
