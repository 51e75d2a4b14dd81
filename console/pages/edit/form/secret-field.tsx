// A secret: it can be given and replaced, and is never shown.

import { useEffect, useRef, useState } from "preact/hooks";
import { Button } from "../../../parts/button.tsx";
import { AreaField, TextField } from "../../../parts/field.tsx";
import { grouped } from "../../../text/numbers.ts";
import type { FieldSpec } from "../fields/field-spec.ts";
import { valueAt } from "../model/pointer.ts";
import { kept } from "../model/secrets.ts";
import type { Form } from "./form-context.ts";

interface SecretFieldProps {
  readonly form: Form;
  readonly field: Extract<FieldSpec, { kind: "secret" }>;
}

export function SecretField({ form, field: { path, label, hint, isLong } }: SecretFieldProps) {
  const value = valueAt(form.draft, path);
  const wasKept = form.stored !== null && valueAt(form.stored, path) === kept;
  const [isFolded, setFolded] = useState(typeof value === "string" && value !== "" && isLong);
  const text = typeof value === "string" ? value : "";
  const error = form.problemAt(path);
  const put = (next: string) => form.set(path, next === "" ? undefined : next);
  const opened = useRef(false);
  const replace = () => {
    opened.current = true;
    setFolded(false);
    put("");
  };
  useEffect(() => {
    if (!opened.current) return;
    opened.current = false;
    document.getElementsByName(path)[0]?.focus();
  });
  if (value === kept || (isLong && isFolded && text !== ""))
    return <Folded {...{ path, label, error, replace, isKept: value === kept, length: text.length }} />;
  const keep = wasKept && (
    <>
      {" "}
      <Button size="small" kind="plain" onClick={() => form.set(path, kept)}>
        Keep the present one
      </Button>
    </>
  );
  const note =
    hint || keep ? (
      <>
        {hint}
        {keep}
      </>
    ) : undefined;
  if (!isLong)
    return (
      <TextField
        {...{ name: path, label, error, hint: note, type: "password", autocomplete: "new-password" }}
        {...{ value: text, onValue: put }}
      />
    );
  return (
    <AreaField
      {...{ name: path, label, error, hint: note, rows: 3, placeholder: "-----BEGIN …" }}
      {...{ value: text, onValue: put, onBlur: () => setFolded(text !== "") }}
    />
  );
}

interface FoldedProps {
  readonly path: string;
  readonly label: string;
  readonly error: string | null;
  readonly isKept: boolean;
  readonly length: number;
  readonly replace: () => void;
}

function Folded({ path, label, error, isKept, length, replace }: FoldedProps) {
  return (
    <div class="field">
      <span class="label">{label}</span>
      <span class="kept row">
        <span class="soft">
          {isKept ? "••••••••  set, and kept" : `Given, ${grouped(length)} characters`}
        </span>
        <Button size="small" name={path} onClick={replace} aria-label={`Replace: ${label}`}>
          Replace
        </Button>
      </span>
      {error && <span class="error">{error}</span>}
    </div>
  );
}
