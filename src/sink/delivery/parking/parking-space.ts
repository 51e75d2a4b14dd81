// How much may be parked.

import { MillraceError } from "../../../errors/millrace-error.ts";
import type { ParkingLimits } from "../delivery-settings.ts";
import type { OutgoingRequest } from "../stream/outgoing-request.ts";
import type { ParkedIndex } from "./parked-index.ts";

type Parkable = Pick<OutgoingRequest, "schema" | "table" | "idempotencyKey" | "rows"> & {
  readonly body: { readonly length: number };
};

export class ParkingSpace {
  /** Parked though there was no space, since there was some. A run begins with none: so each gets further than the last one. */
  #beyond = { rows: 0, bytes: 0 };

  constructor(
    private readonly connectorId: string,
    private readonly limits: ParkingLimits,
    private readonly parked: Pick<ParkedIndex, "size" | "bytes">,
  ) {}

  get isThere(): boolean {
    return this.#has([]);
  }

  for(requests: readonly Parkable[]): boolean {
    const isThere = this.#has(requests);
    if (isThere) this.#beyond = { rows: 0, bytes: 0 };
    return isThere;
  }

  /**
   * Takes more than there is. What is to be sent again waits for the stream, and the checkpoint passes a window as a whole: the stream would wait
   * for the places of these. Returns whether so much may be taken.
   */
  exceed(requests: readonly Parkable[]): boolean {
    const { beyond } = this.limits;
    const rows = requests.reduce((sum, { rows }) => sum + rows, this.#beyond.rows);
    const bytes = bytesOf(requests) + this.#beyond.bytes;
    if (rows > beyond.rows || bytes > beyond.bytes) return false;
    this.#beyond = { rows, bytes };
    return true;
  }

  full(request: Parkable | undefined): MillraceError {
    const { connectorId, limits, parked } = this;
    return new MillraceError(
      "parking_full",
      `Parking is full: ${parked.size} messages with ${parked.bytes} bytes are parked, and at most ${limits.maxMessages} ` +
        `messages and ${limits.maxBytes} bytes may be. The next one is of ${request?.schema}.${request?.table} (Idempotency-Key ` +
        `${request?.idempotencyKey}). "millrace parked list ${connectorId}" shows what is parked. Mend what refuses them, run "millrace parked ` +
        `retry ${connectorId}" or "millrace parked discard ${connectorId}" for some of it, and start the connector again`,
    );
  }

  #has(requests: readonly Parkable[]): boolean {
    const { maxMessages, maxBytes } = this.limits;
    const { size, bytes } = this.parked;
    // A message that is larger than all that may be parked is parked where nothing else is.
    const hasBytes = bytes + bytesOf(requests) <= maxBytes || size === 0;
    return hasBytes && size + requests.length <= maxMessages;
  }
}

function bytesOf(requests: readonly Parkable[]): number {
  return requests.reduce((sum, { body }) => sum + body.length, 0);
}
