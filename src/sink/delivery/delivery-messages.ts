// What a session is asked to do, and which of it does not simply wait its turn. Pure.

import type { ToDelivery } from "./line/line-messages.ts";

/** What a session is asked to do. The line ends it. */
export type DeliveryMessage = Exclude<ToDelivery, { type: "close" }>;

/** The stream goes on when they are done, and they may wait for the record. */
export const savesFirst: ReadonlySet<string> = new Set(["log", "forget", "prepare", "copy.begin"]);

/** With these a chunk of a copy goes on and ends. */
export const endsChunks: ReadonlySet<string> = new Set<DeliveryMessage["type"]>([
  "copy.rows",
  "copy.chunk-end",
  "copy.chunk-cancel",
]);
