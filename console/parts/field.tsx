import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

interface FieldProps {
  readonly label: string;
  readonly hint?: ComponentChildren;
  /** What the API says about it; null: nothing is wrong. */
  readonly error?: string | null;
  /** Gets the attributes that tie it to label, hint and error. */
  readonly children: (attributes: FieldAttributes) => ComponentChildren;
}

export interface FieldAttributes {
  readonly id: string;
  readonly class: "input";
  readonly "aria-describedby"?: string;
  readonly "aria-invalid"?: boolean;
}

type Notes = Pick<FieldProps, "hint" | "error"> & { readonly id: string };

/** Ties an input to the notes below it, for those who hear the page. */
function noted({ id, hint, error }: Notes): Omit<FieldAttributes, "id" | "class"> {
  const described = [hint ? `${id}-hint` : "", error ? `${id}-error` : ""].filter(Boolean).join(" ");
  return { ...(described && { "aria-describedby": described }), ...(error && { "aria-invalid": true }) };
}

function FieldNotes({ id, hint, error }: Notes) {
  return (
    <>
      {hint && (
        <span class="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
      {error && (
        <span class="error" id={`${id}-error`}>
          {error}
        </span>
      )}
    </>
  );
}

/** One field of a form, with its label, and what is wrong with it beside it. */
export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const attributes: FieldAttributes = { id, class: "input", ...noted({ id, hint, error }) };
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(attributes)}
      <FieldNotes {...{ id, hint, error }} />
    </div>
  );
}

interface TextFieldProps extends Omit<FieldProps, "children"> {
  readonly value: string;
  readonly onValue: (value: string) => void;
  readonly type?: "text" | "password" | "number" | "url" | "search";
  readonly inputMode?: "text" | "numeric";
  readonly name?: string;
  /** Takes what is pasted by itself, if it returns true. */
  readonly onPastedText?: (text: string) => boolean;
  readonly onBlur?: () => void;
  readonly placeholder?: string;
  readonly autocomplete?: "off" | "username" | "current-password" | "new-password";
  readonly required?: boolean;
  readonly disabled?: boolean;
  readonly readOnly?: boolean;
  readonly autoFocus?: boolean;
}

export function TextField(props: TextFieldProps) {
  const { label, hint, error, value, onValue, onPastedText, type = "text", ...input } = props;
  return (
    <Field label={label} hint={hint} error={error ?? null}>
      {(attributes) => (
        <input
          {...input}
          {...attributes}
          // biome-ignore lint/suspicious/noExplicitAny: Preact's types know an input by one fixed type each.
          type={type as any}
          spellcheck={false}
          value={value}
          onInput={(event) => onValue(event.currentTarget.value)}
          onPaste={(event) => {
            if (onPastedText?.(event.clipboardData?.getData("text/plain") ?? "")) event.preventDefault();
          }}
        />
      )}
    </Field>
  );
}

interface AreaFieldProps extends Omit<FieldProps, "children"> {
  readonly value: string;
  readonly onValue: (value: string) => void;
  readonly name?: string;
  readonly placeholder?: string;
  readonly readOnly?: boolean;
  readonly rows?: number;
  readonly onBlur?: () => void;
}

/** Several lines: certificates, keys, JSON. */
export function AreaField({ label, hint, error, value, onValue, ...area }: AreaFieldProps) {
  return (
    <Field label={label} hint={hint} error={error ?? null}>
      {(attributes) => (
        <textarea
          {...attributes}
          {...area}
          {...{ spellcheck: false, value }}
          onInput={(event) => onValue(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

interface ChoiceFieldProps<Value extends string> extends Omit<FieldProps, "children"> {
  readonly value: Value;
  readonly choices: readonly (readonly [value: Value, label: string])[];
  readonly onValue: (value: Value) => void;
  readonly name?: string;
  readonly disabled?: boolean;
}

export function ChoiceField<Value extends string>(props: ChoiceFieldProps<Value>) {
  const { label, hint, error, value, choices, onValue, name, disabled } = props;
  return (
    <Field label={label} hint={hint} {...(error !== undefined && { error })}>
      {(attributes) => (
        <select
          {...attributes}
          {...{ name, disabled }}
          value={value}
          onChange={(event) => onValue(event.currentTarget.value as Value)}
        >
          {choices.map(([choice, text]) => (
            <option key={choice} value={choice}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

interface CheckFieldProps {
  readonly label: string;
  readonly hint?: ComponentChildren;
  readonly error?: string | null;
  readonly checked: boolean;
  readonly onChecked: (checked: boolean) => void;
  readonly name?: string;
  readonly disabled?: boolean;
}

export function CheckField({ label, hint, error, checked, onChecked, name, disabled }: CheckFieldProps) {
  const id = useId();
  return (
    <div class="check">
      <input
        type="checkbox"
        {...{ id, name, checked, disabled }}
        {...noted({ id, hint, error })}
        onChange={(event) => onChecked(event.currentTarget.checked)}
      />
      <div class="field">
        <label for={id}>{label}</label>
        <FieldNotes {...{ id, hint, error }} />
      </div>
    </div>
  );
}
