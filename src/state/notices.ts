// What one replica hears of the changes that others make in the state.

export type Notice =
  | { readonly what: "connector"; readonly connector: string }
  | { readonly what: "task"; readonly connector: string; readonly task: string }
  | { readonly what: "lease"; readonly connector: string }
  /** Notices may have been missed. */
  | { readonly what: "missed" };

export interface Notices {
  /** Those of other replicas alone. Must not throw. Returns what ends it. */
  listen(listener: (notice: Notice) => void): () => void;
}
