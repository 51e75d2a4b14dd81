// The findings of an examination of the service or of a connector.

import { type Static, Type } from "@sinclair/typebox";
import { nullable, oneOf, strictObject } from "../request/schema-forms.ts";

export const DiagnosisSchema = strictObject({
  connector: nullable(Type.String({ description: "Null: it is about the service." })),
  about: oneOf(["status", "source", "slot", "clock", "sink", "state", "disk", "threads", "replicas"]),
  severity: oneOf(["ok", "warning", "failed"], {
    description: "`warning`: it goes on, and somebody should look; `failed`: it cannot go on.",
  }),
  finding: Type.String({ description: "What was found, and what to do about it." }),
  commands: Type.Array(Type.String(), { description: "SQL or shell commands that fix it, ready to paste." }),
});
export type Diagnosis = Static<typeof DiagnosisSchema>;

/** A finding before it is assigned to a connector or to the service. */
export type Finding = Omit<Diagnosis, "connector">;

export function fine(about: Finding["about"], finding: string): Finding {
  return { about, severity: "ok", finding, commands: [] };
}
