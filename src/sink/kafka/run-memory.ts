// What a run remembers from one session to the next.

export interface RunMemory {
  /** The run has committed something, in an earlier session too: a record of another run says that somebody took over. */
  hasCommitted: boolean;
  /** Of a partition's batch: a broker may take less than is configured. */
  batchBytes: number;
}
