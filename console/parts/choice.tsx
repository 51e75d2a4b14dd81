interface ChoiceProps<Value extends string> {
  /** Names what is chosen for those who hear the page. */
  readonly label: string;
  readonly choices: readonly (readonly [value: Value, label: string])[];
  readonly value: Value;
  readonly onValue: (value: Value) => void;
}

/** One of a few, each a word or two. */
export function Choice<Value extends string>({ label, choices, value, onValue }: ChoiceProps<Value>) {
  return (
    <fieldset class="choice">
      <legend class="only-spoken">{label}</legend>
      {choices.map(([choice, text]) => (
        <button key={choice} type="button" aria-pressed={choice === value} onClick={() => onValue(choice)}>
          {text}
        </button>
      ))}
    </fieldset>
  );
}
