// What the configuration of a sink of messages says of parking. Pure.

import type { OnExhausted } from "../../../connector/config/parking-config.ts";
import type { ParkingSettings } from "../delivery-settings.ts";
import { windowChanges } from "../stream/window-options.ts";

/** Bounds of what waits behind earlier messages, where nothing more is parked. */
const leftParking = { max_messages: 10_000, max_bytes: 268_435_456, retry_every_minutes: 0 };

/** `maxBufferedRows`: of the stream; infinite: no bound. */
export function parkingSettings({ park }: OnExhausted, maxBufferedRows: number): ParkingSettings {
  const { max_messages, max_bytes, retry_every_minutes } = park ?? leftParking;
  return {
    parksRefused: park !== undefined,
    maxMessages: max_messages,
    maxBytes: max_bytes,
    // The checkpoint passes a window as a whole: with messages in it that wait for that, the rest of it has to be parked. Some changes are two rows.
    beyond: {
      rows: 2 * Math.min(windowChanges, maxBufferedRows),
      bytes: Math.max(max_bytes, leftParking.max_bytes),
    },
    retryEveryMs: retry_every_minutes * 60_000,
  };
}
