// What was measured of connectors in the last hour, as `GET /api/v1/samples` tells it.

import { type Static, Type } from "@sinclair/typebox";
import { nullable, strictObject, timestamp } from "../request/schema-forms.ts";

/** From one sample to the next. */
export const stepSeconds = 5;

const series = (description: string) =>
  Type.Array(nullable(Type.Number({ minimum: 0 })), { description: `${description} Null: not known.` });

export const ConnectorSamplesSchema = strictObject(
  {
    connector_id: Type.String(),
    first_at: timestamp("When the first step ended. Each further one ends `step_seconds` later."),
    rows_in: series("Rows that came from the source in the step."),
    rows_durable: series("Rows that became durable at the sink in the step."),
    bytes_durable: series("Bytes of those rows."),
    lag_seconds: series("`lag_seconds` of the connector's progress at the end of the step."),
    lag_bytes: series("`lag_bytes` of the connector's progress at the end of the step."),
  },
  { description: "Series of one length, oldest first." },
);
export type ConnectorSamples = Static<typeof ConnectorSamplesSchema>;

export const SampleListSchema = strictObject({
  step_seconds: Type.Integer({ minimum: 1, description: `${stepSeconds}.` }),
  samples: Type.Array(ConnectorSamplesSchema, {
    description: "Of connectors that were measured in that time.",
  }),
});
export type SampleList = Static<typeof SampleListSchema>;
