// Dates, times and intervals at their limits.

import { q, type ValueCase } from "./value-case.ts";

export const timeCases: readonly ValueCase[] = [
  {
    type: "date",
    values: ["infinity", "-infinity", "4714-11-24 BC", "0001-12-31 BC", "5874897-12-31", "2024-02-29"].map(q),
    json: "text",
    isKey: true,
  },
  {
    type: "time",
    values: ["24:00:00", "00:00:00", "23:59:59.999999", "00:00:00.000001"].map(q),
    json: "text",
    isKey: true,
  },
  { type: "time(0)", values: ["'23:59:59.4'"], json: "text" },
  {
    type: "timetz",
    values: [
      ...["24:00:00+00", "24:00:00-15:59:59", "00:00:00+15:59:59", "12:00:00.000001+05:30", "12:00-03"],
    ].map(q),
    json: "zoned time",
    isKey: true,
  },
  { type: "timetz(2)", values: ["'01:02:03.456+14'"], json: "zoned time" },
  {
    type: "timestamp",
    values: [
      ...[
        "infinity",
        "-infinity",
        "4714-11-24 00:00:00 BC",
        "0044-03-15 12:00:00.000001 BC",
        "0001-01-01 00:00:00",
      ],
      ...[
        "294276-12-31 23:59:59.999999",
        "1999-12-31 23:59:59.999999",
        "2000-01-01 00:00:00",
        "2024-01-01 00:00:00.1",
      ],
    ].map(q),
    json: "timestamp",
    isKey: true,
  },
  { type: "timestamp(3)", values: ["'2024-06-30 23:59:59.9996'"], json: "timestamp" },
  {
    type: "timestamptz",
    values: [
      ...["infinity", "-infinity", "4714-11-24 00:00:00+00 BC", "0044-03-15 12:00:00.5+05:30 BC"],
      ...[
        "294276-12-31 23:59:59.999999+00",
        "2024-10-27 02:30:00.000001 Europe/Berlin",
        "1883-11-18 12:00:00-04:56:02",
      ],
    ].map(q),
    json: "timestamp",
    isKey: true,
  },
  { type: "timestamptz(0)", values: ["'2024-06-30 23:59:59.9-11'"], json: "timestamp" },
  {
    type: "interval",
    values: [
      ...["0", "1 mon -1 day", "-1 year +2 days -03:04:05.678901", "-00:00:00.000001", "178000000 years"],
      ...["2147483647 days", "-178956970 years -8 mons"],
    ].map(q),
    json: "text",
    isKey: true,
  },
  { type: "interval", values: ["'infinity'", "'-infinity'"], json: "text", since: { source: 17, sink: 17 } },
  {
    type: "interval",
    values: ["'2562047788:00:54.775807'"],
    json: "text",
    since: { source: 15, sink: 15 },
  },
  { type: "interval year to month", values: ["'1-2'"], json: "text" },
  { type: "interval day to second(3)", values: ["'1 2:3:4.5678'"], json: "text" },
];
