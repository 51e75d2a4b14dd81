// What is sent together: the batches that have gathered, by partition.

import type { RecordBatch } from "../client/record-batch.ts";
import { QueueOffsets } from "./queue-offsets.ts";

/** The messages of one partition. */
export class PartitionQueue {
  /** Of the next batch. */
  sequence = 0;
  /** Numbers the messages that were added, from 0 on. */
  added = 0;
  readonly offsets = new QueueOffsets();
  open: RecordBatch | null = null;
  full: RecordBatch[] = [];

  constructor(
    readonly topic: string,
    readonly partition: number,
  ) {}
}

/** Batches that are sent together, each partition's in order. */
export interface Round {
  readonly batches: Map<PartitionQueue, RecordBatch[]>;
  readonly bytes: number;
  readonly messages: number;
  /** It is sent once this has resolved. */
  readonly after: Promise<unknown> | null;
  /** The transaction ends with it. */
  readonly isCommit: boolean;
  readonly done: PromiseWithResolvers<void>;
}
