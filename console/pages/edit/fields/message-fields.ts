// The fields that webhooks and Kafka share: what a message looks like, and for how long it is known what became of it. Pure.

import { check, choice, type FieldSpec, type GroupSpec, number, text, union } from "./field-spec.ts";

type At = "/sink/webhook/format" | "/sink/kafka/format";
/** Both kinds of sinks have it: one of them stands for the type. */
type Debezium = "/sink/webhook/format/debezium";

export function formatField(at: At, hint: string): FieldSpec {
  return union(
    at as "/sink/webhook/format",
    "Format",
    {
      native: "The row, as plain JSON",
      supermetal: "The row, as plain JSON (supermetal)",
      debezium: "Debezium's envelope, with before and after",
    },
    { rare: ["supermetal"], hint },
  );
}

export function debeziumFields(at: At): FieldSpec[] {
  const debezium = `${at}/debezium` as Debezium;
  const under = { under: debezium };
  return [
    check(`${debezium}/include_before`, "Send the row as it was before", under),
    text(`${debezium}/skipped_operations`, "Operations that are not sent", {
      ...under,
      hint: "Letters of c, u, d, r, t with commas between them, or none.",
    }),
    choice(
      `${debezium}/data_types/decimal_handling_mode`,
      "Decimals",
      { Precise: "Precise: bytes and scale", Double: "Double: may lose digits", String: "String" },
      under,
    ),
    choice(
      `${debezium}/data_types/time_precision_mode`,
      "Times",
      {
        Adaptive: "Adaptive",
        AdaptiveTimeMicroseconds: "Adaptive, times of day in µs",
        Connect: "Connect: milliseconds",
        IsoString: "ISO 8601 text",
        Microseconds: "Microseconds",
        Nanoseconds: "Nanoseconds",
      },
      under,
    ),
    choice(
      `${debezium}/data_types/binary_handling_mode`,
      "Binary values",
      { Bytes: "Bytes", Base64: "Base64", Base64UrlSafe: "Base64, safe for URLs", Hex: "Hex" },
      under,
    ),
    check(`${debezium}/emit_tx_metadata`, "Tell of transactions", under),
    text(`${debezium}/tx_metadata_topic`, "Name of the transactions' messages", under),
  ];
}

export const receiptGroup: GroupSpec = {
  title: "Receipts",
  hint: "What became of a row, for “Find a row”",
  fields: [
    number("/limits/receipts_hours", "Keep them for (hours)", { width: 2, hint: "0: none are kept." }),
    number("/limits/receipts_max_bytes", "Most bytes of them", { width: 2 }),
  ],
};
