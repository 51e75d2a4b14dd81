// Keeps a source's state in memory, for as long as a test lasts.

import { SourceState, type SourceStateStore } from "../../../src/source/source-state.ts";

export function memorySourceState(): SourceStateStore {
  let record: string | null = null;
  return {
    load: async () => record,
    save: async (text) => {
      record = text;
    },
  };
}

export function emptySourceState(): Promise<SourceState> {
  return SourceState.load(memorySourceState());
}
