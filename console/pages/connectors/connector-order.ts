// Which connectors the list shows, and in which order. Pure.

import type { GivenConnector } from "../../../src/connector/connector.ts";
import { type Condition, conditionOf, type Tone } from "../../connector/condition.ts";
import { sinkKind, sinkName, sourceName } from "../../connector/endpoints.ts";
import type { KnownConnector } from "../../connector/known-connector.ts";

export interface ListedConnector {
  readonly entry: KnownConnector;
  readonly condition: Condition;
}

/** `tone` null: all. */
export interface Filter {
  readonly text: string;
  readonly tone: Tone | null;
}

/** What needs somebody comes first; within the same need by id, so that nothing jumps without a reason. */
export function listed(connectors: Iterable<KnownConnector>): ListedConnector[] {
  return [...connectors]
    .map((entry) => ({ entry, condition: conditionOf(entry) }))
    .sort(
      (a, b) => a.condition.rank - b.condition.rank || compare(a.entry.connector.id, b.entry.connector.id),
    );
}

export function matching(all: readonly ListedConnector[], { text, tone }: Filter): ListedConnector[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return all.filter(({ entry, condition }) => {
    if (tone !== null && condition.tone !== tone) return false;
    const haystack = searched(entry, condition);
    return words.every((word) => haystack.includes(word));
  });
}

export function countByTone(all: readonly ListedConnector[]): ReadonlyMap<Tone, number> {
  const counts = new Map<Tone, number>();
  for (const { condition } of all) counts.set(condition.tone, (counts.get(condition.tone) ?? 0) + 1);
  return counts;
}

function searched({ connector, status }: GivenConnector, { word }: Condition): string {
  const parts = [
    connector.id,
    connector.name ?? "",
    sourceName(connector),
    sinkKind(connector),
    sinkName(connector),
    status.replica ?? "",
    word,
  ];
  return parts.join(" ").toLowerCase();
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
