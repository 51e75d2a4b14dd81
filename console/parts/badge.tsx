import type { Tone } from "../connector/condition.ts";

/** A word with a colour. The word alone says all: the colour helps to find it. */
export function Badge({ tone, children }: { readonly tone: Tone; readonly children: string }) {
  return <span class={`badge tone-${tone}`}>{children}</span>;
}
