// How much may be parked. Pure.

import { MillraceError } from "../../../errors/millrace-error.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import type { ParkedIndex } from "./parked-index.ts";

export interface ParkingLimits {
  readonly maxMessages: number;
  /** Of bodies, before they are compressed. */
  readonly maxBytes: number;
}

type Parkable = Pick<OutgoingRequest, "schema" | "table" | "idempotencyKey"> & {
  readonly body: { readonly length: number };
};

export function hasSpaceFor(
  requests: readonly Parkable[],
  parked: Pick<ParkedIndex, "size" | "bytes">,
  { maxMessages, maxBytes }: ParkingLimits,
): boolean {
  const bytes = requests.reduce((sum, { body }) => sum + body.length, 0);
  // A message that is larger than all that may be parked is parked where nothing else is.
  const hasSpace = parked.bytes + bytes <= maxBytes || parked.size === 0;
  return hasSpace && parked.size + requests.length <= maxMessages;
}

export function parkingFull(
  connectorId: string,
  request: Parkable | undefined,
  parked: Pick<ParkedIndex, "size" | "bytes">,
  limits: ParkingLimits,
): MillraceError {
  return new MillraceError(
    "parking_full",
    `Parking is full: ${parked.size} messages with ${parked.bytes} bytes are parked, and at most ${limits.maxMessages} ` +
      `messages and ${limits.maxBytes} bytes may be. The next one is of ${request?.schema}.${request?.table} (Idempotency-Key ` +
      `${request?.idempotencyKey}). "millrace parked list ${connectorId}" shows what is parked. Mend what refuses them, run "millrace parked ` +
      `retry ${connectorId}" or "millrace parked discard ${connectorId}" for some of it, and start the connector again`,
  );
}
