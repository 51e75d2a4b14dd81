// The URLs of the worker threads' programs. This file is beside main.ts because in the compiled binary the URLs resolve
// against its root.

export const replicationWorkerUrl = new URL("./replication.worker.ts", import.meta.url);
export const webhookWorkerUrl = new URL("./webhook.worker.ts", import.meta.url);
