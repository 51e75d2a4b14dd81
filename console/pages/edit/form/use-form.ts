// The state of the form: the configuration itself, and what the API says of it. Fields are drawn from it; nothing is rebuilt.

import { useCallback, useMemo, useRef, useState } from "preact/hooks";
import type { ConnectorRequest } from "../../../../src/connector/connector.ts";
import type { JsonObject, JsonValue } from "../../../../src/connector/request/merge-patch.ts";
import { type Api, answer } from "../../../api/client.ts";
import type { FieldProblem } from "../../../api/problem.ts";
import { useLoaded } from "../../../store/use-loaded.ts";
import { allFields, everyField } from "../fields/all-fields.ts";
import { isOutOfPlace, kindAt } from "../fields/field-spec.ts";
import { skeletonOf } from "../model/draft.ts";
import { mergePatchOf, withPatch } from "../model/patch.ts";
import { isObject, valueAt, withValue } from "../model/pointer.ts";
import { type Placed, placeProblems, withoutProblemsAt } from "../model/problems.ts";
import type { Form } from "./form-context.ts";

export interface Beginning {
  readonly draft: JsonObject;
  readonly stored: JsonObject | null;
  readonly tag: string | null;
  readonly isNew: boolean;
  readonly secretsOf: string | null;
}

type Stored = Pick<Beginning, "stored" | "tag">;

export interface FormState {
  readonly form: Form;
  readonly problems: Placed;
  readonly setProblems: (problems: readonly FieldProblem[]) => void;
}

/** What was typed for a kind that is not chosen now, by its place. */
type Parked = Map<string, JsonValue>;

export function useFormState(api: Api, { draft: first, ...beginning }: Beginning): FormState {
  const [draft, setDraft] = useState(first);
  const [{ stored, tag }, setStored] = useState<Stored>(beginning);
  const [problems, setProblems] = useState<readonly FieldProblem[]>([]);
  const parked = useRef<Parked>(new Map());
  const defaults = useDefaults(api, draft);
  const latestDefaults = useRef(defaults);
  latestDefaults.current = defaults;

  const change = useCallback((path: string, next: (draft: JsonObject) => JsonObject) => {
    setDraft((before) => settled(next(before), latestDefaults.current, parked.current));
    setProblems((before) => withoutProblemsAt(before, path));
  }, []);
  const set = useCallback(
    (path: string, value: JsonValue | undefined) =>
      change(path, (before) => withImplied(before, path, value)),
    [change],
  );
  const setKind = useCallback(
    (path: string, kind: string | null, blank: JsonObject) =>
      change(path, (before) => withKind(before, path, kind, { blank, parked: parked.current })),
    [change],
  );
  const replaceDraft = useCallback((next: JsonObject) => {
    setDraft(next);
    setProblems([]);
  }, []);

  const placed = useMemo(
    () =>
      placeProblems(
        problems,
        allFields(draft, defaults).map(({ path }) => path),
      ),
    [problems, draft, defaults],
  );
  const form: Form = {
    ...beginning,
    stored,
    tag,
    draft,
    defaults,
    set,
    setKind,
    setDraft: replaceDraft,
    rebase: (now, nowTag) => {
      setDraft(withPatch(now, mergePatchOf(stored ?? {}, draft)));
      setStored({ stored: now, tag: nowTag });
    },
    problemAt: (path) => placed.byField.get(path) ?? null,
    isFixed: (field) => !beginning.isNew && field.isFixed === true,
  };
  return { form, problems: placed, setProblems };
}

/** What the API fills in, for the kinds that are chosen. The last answer stays until the next is there. */
function useDefaults(api: Api, draft: JsonObject): JsonObject | null {
  const skeleton = JSON.stringify(skeletonOf(draft));
  const { data } = useLoaded(
    () => answer(api.debug.connector.post(JSON.parse(skeleton) as ConnectorRequest)),
    [skeleton],
  );
  const last = useRef<JsonObject | null>(null);
  if (data) last.current = data as unknown as JsonObject;
  return last.current;
}

function withImplied(before: JsonObject, path: string, value: JsonValue | undefined): JsonObject {
  const next = withValue(before, path, value);
  const field = everyField(before).find((each) => each.path === path);
  if (value === undefined || !field?.alsoSets) return next;
  const [place, implied] = field.alsoSets;
  return valueAt(next, place) === undefined ? withValue(next, place, implied) : next;
}

function withKind(
  before: JsonObject,
  path: string,
  kind: string | null,
  { blank, parked }: { readonly blank: JsonObject; readonly parked: Parked },
): JsonObject {
  const [was, value] = [kindAt(path, before, null), valueAt(before, path)];
  if (was !== null && isObject(value)) parked.set(`${path} ${was}`, value[was] ?? {});
  if (kind === null) return withValue(before, path, undefined);
  return withValue(before, path, { [kind]: parked.get(`${path} ${kind}`) ?? blank });
}

/** Takes out what the API would refuse beside the words that are chosen, and puts it back when it fits again. */
function settled(draft: JsonObject, defaults: JsonObject | null, parked: Parked): JsonObject {
  let next = draft;
  for (const field of everyField(draft)) {
    if (!field.onlyIf) continue;
    const value = valueAt(next, field.path);
    const saved = parked.get(field.path);
    if (value !== undefined && isOutOfPlace(field, next, defaults)) {
      parked.set(field.path, value);
      next = withValue(next, field.path, undefined);
    } else if (value === undefined && saved !== undefined) {
      const back = withValue(next, field.path, saved);
      if (isOutOfPlace(field, back, defaults)) continue;
      parked.delete(field.path);
      next = back;
    }
  }
  return next;
}
