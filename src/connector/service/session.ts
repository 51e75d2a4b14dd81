// What the caller of the API may do. Pure.

import type { Static } from "@sinclair/typebox";
import { oneOf, strictObject } from "../request/schema-forms.ts";

export const SessionSchema = strictObject(
  { access: oneOf(["Full", "Read"]) },
  { description: "What the caller's credentials may do: everything, or only GET and HEAD." },
);

export type Session = Static<typeof SessionSchema>;
export type Access = Session["access"];
