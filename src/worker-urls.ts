// The URLs of the worker threads' programs. This file is beside main.ts because in the compiled binary the URLs resolve
// against its root.

export const replicationWorkerUrl = new URL("./replication.worker.ts", import.meta.url);
export const deliveryWorkerUrl = new URL("./delivery.worker.ts", import.meta.url);
