// Requests that count only where the connector is as the client believes, by the header fields of HTTP (RFC 9110, section 13).

import { Type } from "@sinclair/typebox";
import type { GivenConnector } from "../../connector/connector.ts";
import {
  configurationTag,
  type Precondition,
  readPrecondition,
} from "../../connector/request/precondition.ts";

/** Other header fields are none of its business. */
export const ConditionHeaders = Type.Object({
  "if-match": Type.Optional(
    Type.String({
      description:
        "An ETag of this connector: the change counts only while its configuration is that one. 412 otherwise.",
    }),
  ),
  "if-none-match": Type.Optional(
    Type.String({
      description: "`*`: the request counts only where there is no such connector. 412 otherwise.",
    }),
  ),
});

export function preconditionOf(headers: {
  readonly "if-match"?: string;
  readonly "if-none-match"?: string;
}): Precondition {
  return readPrecondition(headers["if-match"], headers["if-none-match"]);
}

/** The tag says nothing of the status, which is in the same answer: nobody may keep that in its place. */
export function tagHeaders({ connector }: GivenConnector): Readonly<Record<string, string>> {
  return { etag: configurationTag(connector), "cache-control": "no-store" };
}
