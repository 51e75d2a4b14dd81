// The parking of one session: what is parked, what sends it again, and what people are told of it.

import { toMillraceError } from "../../../errors/millrace-error.ts";
import type { RequestSettings } from "../delivery-settings.ts";
import type { Attempt, AttemptWatch } from "../order/attempt.ts";
import type { AttemptPlaces } from "../order/attempt-places.ts";
import type { TransportEvents } from "../transport.ts";
import { ParkedRetry } from "./parked-retry.ts";
import { type ParkedWait, parkedWarner } from "./parked-warning.ts";
import { Parking } from "./parking.ts";
import type { ParkingStore } from "./parking-store.ts";

/** Where the messages of a connector are parked. */
export interface ParkingPlace {
  readonly connectorId: string;
  readonly store: ParkingStore;
}

export interface ParkingSet {
  readonly parking: Parking;
  readonly retry: ParkedRetry;
  /** Reads what is parked. */
  begin(): Promise<void>;
}

interface ParkingTools {
  readonly place: ParkingPlace;
  readonly watch?: AttemptWatch | undefined;
  readonly places: AttemptPlaces;
  readonly monotonic: () => number;
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly random: () => number;
}

/** Of the attempts that a connector may make at once, what is sent again has a part. As much may wait for it. */
const retryShare = 0.25;
const mostRetries = 8;

export function parkingSet(
  { parking: settings, retry: policy, maxInFlight }: RequestSettings,
  attempt: Attempt,
  events: TransportEvents,
  { place, watch, places, monotonic, sleep, random }: ParkingTools,
): ParkingSet {
  const { connectorId, store } = place;
  const warn = parkedWarner(connectorId, monotonic, (reason) => events.warning("parking", reason));
  const changed = (wait?: ParkedWait) => {
    const { size, bytes } = parking.parked;
    if (size > 0) void retry.watch();
    warn(size, bytes, wait);
  };
  const { parksRefused, retryEveryMs } = settings;
  // What was delivered before it comes again until the checkpoint is past it, and must not come after it.
  const waitsForCheckpoint = true;
  const share = Math.max(1, Math.floor(maxInFlight * retryShare));
  const mostWaiting = Math.min(share, maxInFlight - 1);
  const parking = new Parking({
    store,
    connectorId,
    parksRefused,
    limits: settings,
    mostWaiting,
    monotonic,
    changed,
    waitsForCheckpoint,
  });
  const retry = new ParkedRetry({
    entries: parking.entries,
    store,
    attempt,
    watch,
    places,
    policy,
    monotonic,
    sleep,
    random,
    stored: (id) => parking.stored(id),
    maxInFlight: Math.min(mostRetries, share),
    everyMs: retryEveryMs,
    held: changed,
    looked: () => changed(),
    failed: (error) => events.failed(toMillraceError(error)),
  });
  parking.retry = retry;
  const begin = async () => {
    await parking.load();
    await retry.watch();
  };
  return { parking, retry, begin };
}
