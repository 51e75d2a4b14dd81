// What a transport asks of the delivering of its connector. Each transport makes it from its own configuration.

import type { ErrorCode } from "../../errors/error-codes.ts";
import type { MessageEncoding } from "../format/message-encoding.ts";
import type { CheckpointStore } from "../sink.ts";
import type { RetryPolicy } from "./order/backoff.ts";
import type { BatchLimits } from "./stream/request-plan.ts";
import type { OpenTransport } from "./transport.ts";

export interface DeliverySettings {
  /** How rows are written, and which operations are sent; also whether rows of copies are. */
  readonly encoding: MessageEncoding;
  readonly batch: BatchLimits;
  /** How long a change waits for others of its request. */
  readonly flushIntervalMs: number;
  /** Rows of changes that are taken and not delivered; infinite: no bound. */
  readonly maxBufferedRows: number;
  /** The same of each table's copy. */
  readonly maxBufferedCopyRows: number;
}

/** Of a transport that sends requests, each on its own. */
export interface RequestSettings extends DeliverySettings {
  readonly retry: RetryPolicy;
  /** What ends the run when the retries of a request end. */
  readonly retriesExhausted: ErrorCode;
  /** Attempts under way at once. */
  readonly maxInFlight: number;
  readonly parking: ParkingSettings;
}

/** How much may be parked. */
export interface ParkingLimits {
  readonly maxMessages: number;
  /** Of bodies, before they are compressed. */
  readonly maxBytes: number;
  /** Beyond these, while what is to be sent again waits for the stream. */
  readonly beyond: { readonly rows: number; readonly bytes: number };
}

export interface ParkingSettings extends ParkingLimits {
  /** What is refused for ever is parked; otherwise the run fails. */
  readonly parksRefused: boolean;
  /** All that is parked is sent again so often; 0: when somebody asks. */
  readonly retryEveryMs: number;
}

/** What a session is given to work with. */
export interface DeliveryTools {
  readonly transport: OpenTransport;
  /** The connector's record in the state. */
  readonly store: CheckpointStore;
  readonly log: (level: "info" | "warn", message: string, fields: Readonly<Record<string, string>>) => void;
  /** Milliseconds of a clock that never goes back. */
  readonly monotonic: () => number;
}
