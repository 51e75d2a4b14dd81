// What the API says against one step, whatever the other steps still lack.

import type { ConnectorRequest } from "../../../../src/connector/connector.ts";
import type { JsonObject } from "../../../../src/connector/request/merge-patch.ts";
import { type Api, answer } from "../../../api/client.ts";
import { ApiProblem, type FieldProblem } from "../../../api/problem.ts";
import { skeletonOf } from "../model/draft.ts";
import type { Side } from "./use-step-data.ts";

/** Empty also where the service does not answer: saving says so. */
export async function violationsOf(
  api: Api,
  side: Side,
  draft: JsonObject,
  secretsOf: string | null,
): Promise<readonly FieldProblem[]> {
  const { id, source, sink } = skeletonOf(draft);
  const other = side === "source" ? { sink } : { source };
  const query = secretsOf === null ? {} : { connector_id: secretsOf };
  try {
    const request = { ...draft, id, ...other } as unknown as ConnectorRequest;
    await answer(api.debug.connector.post(request, { query }));
    return [];
  } catch (error) {
    const isOfOther = (path: string) => path.startsWith(side === "source" ? "/sink" : "/source");
    return error instanceof ApiProblem ? error.fields.filter(({ path }) => !isOfOther(path)) : [];
  }
}
