// The whole configuration as text, in step with the form.

import { useRef, useState } from "preact/hooks";
import { AreaField } from "../../../parts/field.tsx";
import { useForm } from "../form/form-context.ts";
import { isObject } from "../model/pointer.ts";
import { withoutSecrets, withSecretsOf } from "../model/secrets.ts";

export function JsonStep() {
  const form = useForm();
  // Secrets come from what was there before the text was touched: it may lose them while it is typed.
  const before = useRef(form.draft);
  const [text, setText] = useState(() => JSON.stringify(withoutSecrets(form.draft, form.stored), null, 2));
  const [error, setError] = useState<string | null>(null);
  const edit = (next: string) => {
    setText(next);
    const { value, problem } = parsed(next);
    setError(problem);
    if (isObject(value)) form.setDraft(withSecretsOf(value, before.current) as typeof form.draft);
  };
  return (
    <section class="card json-step">
      <AreaField
        {...{ label: "Configuration", name: "/", value: text, onValue: edit, error, rows: 28 }}
        hint='Everything is here, also what the form does not show. A secret that reads "***" stays as it is.'
      />
    </section>
  );
}

function parsed(text: string): { readonly value: unknown; readonly problem: string | null } {
  try {
    const value: unknown = JSON.parse(text);
    return { value, problem: isObject(value) ? null : "It has to be an object: { … }" };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { value: null, problem: `This is no JSON yet, and the form stays as it was: ${reason}` };
  }
}
