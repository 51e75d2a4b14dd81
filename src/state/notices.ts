// What one replica hears of the changes that others make in the state.

export type Notice =
  | { readonly what: "connector"; readonly connector: string }
  | { readonly what: "task"; readonly connector: string; readonly task: string }
  | { readonly what: "lease"; readonly connector: string }
  /** Notices may have been missed. `error`: more will be, as this keeps the replica from hearing them. Then it comes again and again. */
  | { readonly what: "missed"; readonly error?: unknown };

export interface Notices {
  /** Those of other replicas alone. Must not throw. Returns what ends it. */
  listen(listener: (notice: Notice) => void): () => void;
}
