// The events of a validation of a source or a sink.

import { type Static, Type } from "@sinclair/typebox";
import { emptyObject, oneOf, strictObject, taggedUnion, timestamp } from "./request/schema-forms.ts";

const finding = {
  name: Type.String({ description: "What was checked." }),
  description: Type.String(),
  suggestions: Type.Array(Type.String(), { description: "What to do, ready to paste." }),
};

export const TestTypeSchema = taggedUnion({
  Network: Type.Optional(strictObject({ subtype: oneOf(["DnsResolution", "Reachability"]) })),
  TLS: Type.Optional(emptyObject()),
  Connection: Type.Optional(emptyObject()),
  Authentication: Type.Optional(emptyObject()),
  ServerInfo: Type.Optional(strictObject({ version: Type.String() })),
  Permission: Type.Optional(strictObject(finding)),
  Config: Type.Optional(strictObject(finding)),
});
export type TestType = Static<typeof TestTypeSchema>;

const reason = Type.String();

export const TestStatusSchema = taggedUnion({
  Success: Type.Optional(emptyObject()),
  Failed: Type.Optional(strictObject({ reason })),
  Skipped: Type.Optional(strictObject({ reason })),
  Warn: Type.Optional(emptyObject()),
  Start: Type.Optional(emptyObject()),
  InProgress: Type.Optional(strictObject({ progress_percent: Type.Number({ minimum: 0, maximum: 100 }) })),
});
export type TestStatus = Static<typeof TestStatusSchema>;

export const ValidateTestSchema = strictObject({
  id: Type.String(),
  timestamp: timestamp(),
  test_type: TestTypeSchema,
  status: TestStatusSchema,
  message: Type.Optional(Type.String()),
  commands: Type.Optional(
    Type.Array(Type.String(), {
      description: "What fixes it, ready to paste: SQL, or a command of Kafka's tools.",
    }),
  ),
});
export type ValidateTest = Static<typeof ValidateTestSchema>;

export const ValidateEventSchema = taggedUnion({
  start: Type.Optional(emptyObject("The checks begin.")),
  test: Type.Optional(ValidateTestSchema),
  success: Type.Optional(emptyObject("No check failed.")),
  failed: Type.Optional(strictObject({ reason: Type.String() })),
});
export type ValidateEvent = Static<typeof ValidateEventSchema>;

/** Checks one side of a connector, and changes nothing. `connectorId`: null: the connector is not made yet. */
export type Validate<Config> = (
  config: Config,
  signal: AbortSignal,
  connectorId: string | null,
) => Promise<readonly ValidateEvent[]>;
