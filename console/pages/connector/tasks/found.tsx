import type { VerifyResult } from "../../../../src/connector/verification.ts";

/** Shown at first; the API has a hundred. */
const shown = 10;

/** Rows that a comparison has found to differ, by their keys. */
export function Found({ result: { sample, statements = [] } }: { readonly result: VerifyResult }) {
  if (sample.length === 0) return null;
  const rows = sample.slice(0, shown);
  return (
    <details class="small">
      <summary>Rows that differed</summary>
      <ul>
        {rows.map(({ key, kind, columns }) => (
          <li key={JSON.stringify(key)}>
            {kind}{" "}
            {Object.entries(key)
              .map(([name, value]) => `${name} = ${value}`)
              .join(", ")}
            {columns.length > 0 && `: ${columns.join(", ")}`}
          </li>
        ))}
      </ul>
      {sample.length > shown && <p class="soft">And others: the task's result in the API has up to 100.</p>}
      {statements.length > 0 && <pre>{statements.slice(0, shown).join("\n")}</pre>}
    </details>
  );
}
