// A field of the form, drawn from what it is for.

import type { JsonValue } from "../../../../src/connector/request/merge-patch.ts";
import { AreaField, CheckField, ChoiceField, TextField } from "../../../parts/field.tsx";
import { type FieldSpec, kindAt } from "../fields/field-spec.ts";
import { connectionOf } from "../model/connection-url.ts";
import { valueAt } from "../model/pointer.ts";
import { type Form, useForm } from "./form-context.ts";
import { KeyPairField } from "./key-pair-field.tsx";
import { PairsField } from "./pairs-field.tsx";
import { SecretField } from "./secret-field.tsx";
import { WordsField } from "./words-field.tsx";

export function BoundField({ field }: { readonly field: FieldSpec }) {
  const form = useForm();
  switch (field.kind) {
    case "text":
    case "number":
      return <Text {...{ form, field }} />;
    case "lines":
      return <Lines {...{ form, field }} />;
    case "secret":
      return <SecretField {...{ form, field }} />;
    case "check":
      return <Check {...{ form, field }} />;
    case "choice":
      return <Choice {...{ form, field }} />;
    case "words":
      return <WordsField {...{ form, field }} />;
    case "union":
      return <Union {...{ form, field }} />;
    case "presence":
      return <Presence {...{ form, field }} />;
    case "keyPair":
      return <KeyPairField {...{ form, field }} />;
    case "pairs":
      return <PairsField {...{ form, field }} />;
    default:
      return field satisfies never;
  }
}

interface Bound<Kind extends FieldSpec["kind"]> {
  readonly form: Form;
  readonly field: Extract<FieldSpec, { kind: Kind }>;
}

/** What every field has. */
export function labelled(form: Form, field: FieldSpec) {
  const isFixed = form.isFixed(field);
  return {
    name: field.path,
    label: field.label,
    error: form.problemAt(field.path),
    hint: isFixed ? "It cannot change." : field.hint,
    isFixed,
  };
}

function Text({ form, field }: Bound<"text" | "number">) {
  const { isFixed, ...rest } = labelled(form, field);
  const isNumber = field.kind === "number";
  const standard = valueAt(form.defaults ?? {}, field.path);
  const placeholder = standard === undefined || isMade(standard) ? field.placeholder : String(standard);
  return (
    <TextField
      {...rest}
      {...{ placeholder, readOnly: isFixed, autocomplete: "off" }}
      value={textOf(valueAt(form.draft, field.path))}
      onValue={(text) => form.set(field.path, isNumber ? numberOf(text) : text === "" ? undefined : text)}
      {...(isNumber && { inputMode: "numeric" })}
      {...(field.path.endsWith("/connection/host") && {
        onPastedText: (text) => takeAddress(form, field, text),
        // Whoever types an address is done with it when the field is left.
        onBlur: () => takeAddress(form, field, textOf(valueAt(form.draft, field.path))),
      })}
    />
  );
}

/** The defaults are of a made-up connector: its own values are none. */
function isMade(standard: JsonValue): boolean {
  return (
    standard === null || ["host", "user", "database", "id", "https://host", ""].includes(String(standard))
  );
}

/** What is no number goes as it is: the API says what it takes. */
function numberOf(text: string): JsonValue | undefined {
  if (text.trim() === "") return undefined;
  const number = Number(text);
  return /^-?\d+$/.test(text.trim()) && Number.isSafeInteger(number) ? number : text;
}

function textOf(value: JsonValue | undefined): string {
  if (value === undefined || value === null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function takeAddress(form: Form, field: FieldSpec, pasted: string): boolean {
  const connection = connectionOf(pasted);
  if (!connection || form.isFixed(field)) return false;
  const at = field.path.slice(0, -"/host".length);
  for (const [key, value] of Object.entries(connection)) form.set(`${at}/${key}`, value);
  return true;
}

function Lines({ form, field }: Bound<"lines">) {
  const { isFixed, ...rest } = labelled(form, field);
  const value = valueAt(form.draft, field.path);
  const items = Array.isArray(value) ? value.map(textOf) : [];
  const put = (next: readonly string[]) => form.set(field.path, next.length === 0 ? undefined : [...next]);
  return (
    <AreaField
      {...rest}
      {...{ placeholder: field.placeholder, readOnly: isFixed, rows: Math.min(8, Math.max(2, items.length)) }}
      value={items.join("\n")}
      onValue={(text) => put(text === "" ? [] : text.split("\n"))}
      onBlur={() => {
        const kept = items.map((item) => item.trim()).filter(Boolean);
        if (kept.join("\n") !== items.join("\n")) put(kept);
      }}
    />
  );
}

function Check({ form, field }: Bound<"check">) {
  const { isFixed, ...rest } = labelled(form, field);
  const value = valueAt(form.draft, field.path) ?? valueAt(form.defaults ?? {}, field.path);
  return (
    <CheckField
      {...{ ...rest, disabled: isFixed, checked: value === true }}
      onChecked={(checked) => form.set(field.path, checked)}
    />
  );
}

function Choice({ form, field }: Bound<"choice">) {
  const { isFixed, ...rest } = labelled(form, field);
  const value = textOf(valueAt(form.draft, field.path) ?? valueAt(form.defaults ?? {}, field.path));
  const isKnown = field.choices.some(([word]) => word === value);
  const choices = isKnown
    ? field.choices
    : [[value, value === "" ? "Choose…" : value] as const, ...field.choices];
  return (
    <ChoiceField
      {...{ ...rest, choices, value, disabled: isFixed }}
      onValue={(word) => form.set(field.path, word === "" ? undefined : word)}
    />
  );
}

function Union({ form, field }: Bound<"union">) {
  const { isFixed, ...rest } = labelled(form, field);
  const value = kindAt(field.path, form.draft, form.defaults) ?? "";
  const offered = field.choices.filter(([kind]) => kind === value || !field.rare.includes(kind));
  const isKnown = value === "" || offered.some(([kind]) => kind === value);
  const choices = [
    ...(field.none === null ? [] : [["", field.none] as const]),
    ...(isKnown ? [] : [[value, value] as const]),
    ...offered,
  ];
  return (
    <ChoiceField
      {...{ ...rest, choices, value, disabled: isFixed }}
      onValue={(kind) => form.setKind(field.path, kind === "" ? null : kind, field.blanks[kind] ?? {})}
    />
  );
}

function Presence({ form, field }: Bound<"presence">) {
  const { isFixed, ...rest } = labelled(form, field);
  const value = valueAt(form.draft, field.path);
  return (
    <CheckField
      {...{ ...rest, disabled: isFixed, checked: value !== undefined && value !== null }}
      onChecked={(checked) => form.set(field.path, checked ? field.blank : undefined)}
    />
  );
}
