// Several of a few words.

import { CheckField } from "../../../parts/field.tsx";
import type { FieldSpec } from "../fields/field-spec.ts";
import { valueAt } from "../model/pointer.ts";
import type { Form } from "./form-context.ts";

interface WordsFieldProps {
  readonly form: Form;
  readonly field: Extract<FieldSpec, { kind: "words" }>;
}

export function WordsField({ form, field: { path, label, choices } }: WordsFieldProps) {
  const value = valueAt(form.draft, path) ?? valueAt(form.defaults ?? {}, path);
  const chosen = Array.isArray(value) ? value : [];
  const error = form.problemAt(path);
  const put = (word: string, isChosen: boolean) => {
    const rest = chosen.filter((each) => each !== word);
    form.set(path, isChosen ? [...rest, word] : rest);
  };
  return (
    <fieldset class="field">
      <legend>{label}</legend>
      <div class="row">
        {choices.map(([word, text]) => (
          <CheckField
            key={word}
            {...{ label: text, name: path, checked: chosen.includes(word) }}
            onChecked={(checked) => put(word, checked)}
          />
        ))}
      </div>
      {error && <span class="error">{error}</span>}
    </fieldset>
  );
}
