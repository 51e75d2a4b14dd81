import type { Fact } from "./facts.ts";

export function FactsList({
  facts,
  isSmall = false,
}: {
  readonly facts: readonly Fact[];
  readonly isSmall?: boolean;
}) {
  return (
    <dl class={isSmall ? "facts further" : "facts"}>
      {facts.map(({ label, value, note, isCode }) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd class={isCode ? "mono" : ""}>{value}</dd>
          {note && <dd class="note">{note}</dd>}
        </div>
      ))}
    </dl>
  );
}
