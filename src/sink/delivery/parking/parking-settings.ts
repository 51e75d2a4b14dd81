// What the configuration of a sink of messages says of parking. Pure.

import type { OnExhausted } from "../../../connector/config/parking-config.ts";
import type { ParkingSettings } from "../delivery-settings.ts";

/** Bounds of what waits behind earlier messages, where nothing more is parked. */
const leftParking = { max_messages: 10_000, max_bytes: 268_435_456, retry_every_minutes: 0 };

export function parkingSettings({ park }: OnExhausted): ParkingSettings {
  const { max_messages, max_bytes, retry_every_minutes } = park ?? leftParking;
  return {
    parksRefused: park !== undefined,
    maxMessages: max_messages,
    maxBytes: max_bytes,
    retryEveryMs: retry_every_minutes * 60_000,
  };
}
