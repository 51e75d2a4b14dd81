// Where the worker threads' programs are. The only such URLs, and beside main.ts, because in the compiled binary they
// resolve against its root.

export const replicationWorkerUrl = new URL("./replication.worker.ts", import.meta.url);
export const webhookWorkerUrl = new URL("./webhook.worker.ts", import.meta.url);
