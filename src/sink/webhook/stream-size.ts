// How much of the stream is in memory at once on its way to requests. A batch is cut into requests anyway, so that a large one is no
// better than a small one; and a receiver is slower than a source, so that whatever may wait does.

/** What a batch has about. */
export const webhookBatchBytes = 1024 * 1024;

/** What may be on its way between the threads. */
export const webhookLineBytes = 4 * webhookBatchBytes;
