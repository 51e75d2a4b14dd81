import type { GivenKey } from "../../../../src/connector/replay.ts";

/** The task has all of them. */
const shown = 10;

/** Keys that a replay has found no rows of. */
export function MissingKeys({ keys }: { readonly keys: readonly GivenKey[] }) {
  return (
    <details class="small">
      <summary>Keys without a row at the source: nothing was sent for them</summary>
      <ul>
        {keys.slice(0, shown).map((key) => (
          <li key={JSON.stringify(key)}>
            {Object.entries(key)
              .map(([name, value]) => `${name} = ${value}`)
              .join(", ")}
          </li>
        ))}
      </ul>
      {keys.length > shown && <p class="soft">And others: the task's result in the API has all.</p>}
    </details>
  );
}
