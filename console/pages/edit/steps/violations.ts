// What the API says against one step, whatever the other steps still lack.

import type { ConnectorRequest } from "../../../../src/connector/connector.ts";
import type { JsonObject, JsonValue } from "../../../../src/connector/request/merge-patch.ts";
import { type Api, answer } from "../../../api/client.ts";
import { ApiProblem, type FieldProblem } from "../../../api/problem.ts";
import { skeletonOf } from "../model/draft.ts";
import { isObject, withValue } from "../model/pointer.ts";
import type { Side } from "./use-step-data.ts";

/** Empty also where the service does not answer: saving says so. */
export async function violationsOf(
  api: Api,
  side: Side,
  draft: JsonObject,
  secretsOf: string | null,
): Promise<readonly FieldProblem[]> {
  const skeleton = skeletonOf(draft);
  const other = side === "source" ? { sink: skeleton.sink } : { source: skeleton.source };
  const query = secretsOf === null ? {} : { connector_id: secretsOf };
  const ask = async (request: JsonObject) => {
    try {
      const whole = { ...request, id: skeleton.id, ...other } as unknown as ConnectorRequest;
      await answer(api.debug.connector.post(whole, { query }));
      return [];
    } catch (error) {
      return error instanceof ApiProblem ? error.fields : [];
    }
  };
  const found = await ask(draft);
  // The API looks for missing secrets once everything else is there.
  const more = found.length === 0 ? [] : await ask(beneath(withoutPassword(skeleton, side), draft));
  const isNew = ({ path }: FieldProblem) => !found.some((each) => each.path === path);
  const isOfOther = (path: string) => path.startsWith(side === "source" ? "/sink" : "/source");
  return [...found, ...more.filter(isNew)].filter(({ path }) => !isOfOther(path));
}

function withoutPassword(skeleton: JsonObject, side: Side): JsonObject {
  return withValue(skeleton, `/${side}/postgres/connection/password`, undefined);
}

/** `draft`, and what it lacks. */
function beneath(skeleton: JsonValue | undefined, draft: JsonObject): JsonObject {
  const members = Object.entries(draft).map(([key, value]): [string, JsonValue] => [
    key,
    isObject(value) && isObject(skeleton) ? beneath(skeleton[key], value) : value,
  ]);
  return { ...(isObject(skeleton) ? skeleton : {}), ...Object.fromEntries(members) };
}
