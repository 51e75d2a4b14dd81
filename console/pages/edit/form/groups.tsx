// The groups of a step: what everybody fills in is open, the rest folds away.

import { useEffect, useState } from "preact/hooks";
import { type FieldSpec, type GroupSpec, isShown, kindAt } from "../fields/field-spec.ts";
import { blankConnector } from "../model/draft.ts";
import { isSame } from "../model/patch.ts";
import { valueAt } from "../model/pointer.ts";
import { BoundField } from "./bound-field.tsx";
import { type Form, useForm } from "./form-context.ts";

const wide: ReadonlySet<FieldSpec["kind"]> = new Set(["lines", "check", "presence", "words", "pairs"]);

export function Groups({ groups }: { readonly groups: readonly GroupSpec[] }) {
  return (
    <>
      {groups
        .filter(({ isMain }) => isMain)
        .map(({ title, fields }) => (
          <section class="card stack" key={title}>
            <h3>{title}</h3>
            <Fields fields={fields} />
          </section>
        ))}
      <section class="card groups" aria-label="More settings">
        {groups
          .filter(({ isMain }) => !isMain)
          .map((group) => (
            <FoldedGroup key={group.title} group={group} />
          ))}
      </section>
    </>
  );
}

export function Fields({ fields }: { readonly fields: readonly FieldSpec[] }) {
  const form = useForm();
  return (
    <div class="fields">
      {fields
        .filter((field) => isShown(field, form.draft, form.defaults))
        .map((field) => (
          <div key={field.path} class={`span-${widthOf(field)}`}>
            <BoundField field={field} />
          </div>
        ))}
    </div>
  );
}

function widthOf(field: FieldSpec): number {
  if (field.width) return field.width;
  return wide.has(field.kind) || (field.kind === "secret" && field.isLong) ? 6 : 3;
}

function FoldedGroup({ group: { title, hint, fields } }: { readonly group: GroupSpec }) {
  const form = useForm();
  const shown = fields.filter((field) => isShown(field, form.draft, form.defaults));
  const hasProblem = shown.some(({ path }) => form.problemAt(path) !== null);
  const [isOpen, setOpen] = useState(hasProblem);
  useEffect(() => {
    if (hasProblem) setOpen(true);
  }, [hasProblem]);
  if (shown.length === 0) return null;
  const count = shown.filter((field) => isSet(form, field)).length;
  return (
    <details class="group" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="group-title">{title}</span>
        {hint && <span class="soft small">{hint}</span>}
        {count > 0 && <span class="soft small group-count">{count} set</span>}
      </summary>
      {isOpen && <Fields fields={fields} />}
    </details>
  );
}

/** Differs from what it is by default. */
function isSet(form: Form, { path, kind }: FieldSpec): boolean {
  const value = valueAt(form.draft, path);
  if (value === undefined || value === null) return false;
  if (kind === "union")
    return kindAt(path, form.draft, null) !== kindAt(path, blankConnector(), form.defaults);
  return !isSame(value, valueAt(form.defaults ?? {}, path));
}
