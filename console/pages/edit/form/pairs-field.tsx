// A list of names with values: headers, settings, properties.

import type { JsonObject, JsonValue } from "../../../../src/connector/request/merge-patch.ts";
import { Button } from "../../../parts/button.tsx";
import { TextField } from "../../../parts/field.tsx";
import type { FieldSpec } from "../fields/field-spec.ts";
import { isObject, valueAt } from "../model/pointer.ts";
import { kept } from "../model/secrets.ts";
import type { Form } from "./form-context.ts";

interface PairsFieldProps {
  readonly form: Form;
  readonly field: Extract<FieldSpec, { kind: "pairs" }>;
}

export function PairsField({ form, field: { path, label, hint, nameKey } }: PairsFieldProps) {
  const value = valueAt(form.draft, path);
  const items: readonly JsonObject[] = Array.isArray(value) ? value.filter(isObject) : [];
  const error = form.problemAt(path);
  const put = (next: readonly JsonObject[]) => form.set(path, next.length === 0 ? undefined : [...next]);
  const change = (at: number, key: string, text: string) =>
    put(items.map((item, index) => (index === at ? { ...item, [key]: text } : item)));
  const stored = valueAt(form.stored ?? {}, path);
  /** Without a new value the stored one stays. */
  const emptied = (item: JsonObject) => {
    const before = Array.isArray(stored) ? stored.filter(isObject) : [];
    return before.find((each) => each[nameKey] === item[nameKey])?.value === kept ? kept : "";
  };
  return (
    <fieldset class="field">
      <legend>{label}</legend>
      {hint && <span class="hint">{hint}</span>}
      {items.map((item, at) => (
        <div class="pair" key={at}>
          <TextField
            {...{ label: `Name ${at + 1}`, name: `${path}/${at}/${nameKey}`, value: textOf(item[nameKey]) }}
            onValue={(text) => change(at, nameKey, text)}
          />
          <TextField
            {...{ label: `Value ${at + 1}`, name: `${path}/${at}/value`, autocomplete: "off" }}
            value={item.value === kept ? "" : textOf(item.value)}
            {...(item.value === kept && { placeholder: "set, and kept" })}
            onValue={(text) => change(at, "value", text === "" ? emptied(item) : text)}
          />
          <Button
            size="small"
            aria-label={`Remove ${textOf(item[nameKey]) || `pair ${at + 1}`}`}
            onClick={() => put(items.filter((_, index) => index !== at))}
          >
            Remove
          </Button>
        </div>
      ))}
      <div>
        <Button size="small" name={path} onClick={() => put([...items, { [nameKey]: "", value: "" }])}>
          Add
        </Button>
      </div>
      {error && <span class="error">{error}</span>}
    </fieldset>
  );
}

function textOf(value: JsonValue | undefined): string {
  return typeof value === "string" ? value : "";
}
