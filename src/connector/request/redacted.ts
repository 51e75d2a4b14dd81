// What is shown in the place of a secret. In a file of its own: the threads of connectors need it, and none of what describes connectors.

/** Stands for a secret in responses. Sent back, it means the stored secret. */
export const redacted = "***";
