// What each field of the form needs: the configuration as it is now, and how to change it.

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { JsonObject, JsonValue } from "../../../../src/connector/request/merge-patch.ts";
import type { FieldSpec } from "../fields/field-spec.ts";

export interface Form {
  readonly draft: JsonObject;
  /** What the API has: of the connector that is edited, or of the one that is cloned. Null: a new one. */
  readonly stored: JsonObject | null;
  /** The ETag of `stored`; null: not known. */
  readonly tag: string | null;
  /** The full form of a connector of these kinds; null: not known yet. */
  readonly defaults: JsonObject | null;
  readonly isNew: boolean;
  /** The connector whose secrets stand for `"***"`. */
  readonly secretsOf: string | null;
  /** undefined: takes it away. */
  readonly set: (path: string, value: JsonValue | undefined) => void;
  readonly setDraft: (draft: JsonObject) => void;
  /** Somebody else has changed what is stored: what was changed here is put on top of it. */
  readonly rebase: (stored: JsonObject, tag: string | null) => void;
  /** Changes the kind of a union, and keeps what was typed for the other kind. Null: none. */
  readonly setKind: (path: string, kind: string | null, blank: JsonObject) => void;
  readonly problemAt: (path: string) => string | null;
  readonly isFixed: (field: FieldSpec) => boolean;
}

const context = createContext<Form | null>(null);
export const FormProvider = context.Provider;

export function useForm(): Form {
  const form = useContext(context);
  if (!form) throw new Error("There is no form around this field.");
  return form;
}
