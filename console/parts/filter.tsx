import type { Tone } from "../connector/condition.ts";

interface FilterButtonProps {
  readonly label: string;
  readonly count: number;
  readonly isChosen: boolean;
  readonly tone?: Tone | null;
  readonly onChoose: () => void;
}

/** Shows one part of a list. */
export function FilterButton({ label, count, isChosen, tone = null, onChoose }: FilterButtonProps) {
  return (
    <button
      type="button"
      class={`filter ${tone ? `tone-${tone}` : ""}`}
      aria-pressed={isChosen}
      onClick={onChoose}
    >
      {label} <span class="count">{count}</span>
    </button>
  );
}

interface SearchFieldProps {
  readonly label: string;
  readonly placeholder: string;
  readonly value: string;
  readonly onValue: (value: string) => void;
}

export function SearchField({ label, placeholder, value, onValue }: SearchFieldProps) {
  return (
    <label class="search">
      <span class="only-spoken">{label}</span>
      <input
        {...{ type: "search", class: "input", placeholder, value, spellcheck: false, autocomplete: "off" }}
        onInput={(event) => onValue(event.currentTarget.value)}
      />
    </label>
  );
}
