// Finds the catalog's numbers of the columns that an announcement named. It names them as they were when the change was
// logged; the catalog is read later, when columns may have been renamed, given other types, dropped or added. What holds at
// any time: numbers are given out in rising order, never again, and a dropped column keeps its own. Pure.
// https://www.postgresql.org/docs/current/catalog-pg-attribute.html

export interface NamedColumn {
  readonly name: string;
  readonly typeOid: number;
}

export interface SentColumn extends NamedColumn {
  /** As `NumberedColumn.length`. */
  readonly length: number | null;
}

/** A column of the catalog, in the order of its number. */
export interface NumberedColumn extends NamedColumn {
  readonly number: number;
  readonly isDropped: boolean;
  /** What it was called before, as far as that is known. */
  readonly formerNames: readonly string[];
  /** Nobody looked at it before the change was made: it may not have been there. */
  readonly isNew: boolean;
  /** It had the name that it has, and no other. */
  readonly isSteady: boolean;
  /** Bytes of its values, as `pg_type.typlen` tells them; null: not known. */
  readonly length: number | null;
  /** It may have been left out of what was sent. */
  readonly mayBeWithheld: boolean;
}

export interface ColumnNumbers {
  /** Of each column that was sent, in order; zeros when none can be told. */
  readonly numbers: readonly number[];
  /** Other numbers would do as well: these are the likeliest. */
  readonly isGuess: boolean;
}

const impossible = Number.NEGATIVE_INFINITY;

/**
 * Of all ways to find each column that was `sent` in the catalog in rising order, by a name that it has or had where one is
 * known, the way in which most agrees. A column that the catalog still has was sent with those of a higher number, and in any
 * case where it was seen before the change.
 */
export function numberColumns(
  sent: readonly SentColumn[],
  catalog: readonly NumberedColumn[],
): ColumnNumbers {
  const fits = candidates(sent, catalog);
  const { score, ways } = alignments(sent, catalog, fits);
  if (ways(0, 0) === 0) return { numbers: sent.map(() => 0), isGuess: true };
  const numbers: number[] = [];
  for (let s = 0, c = 0; s < sent.length; c++) {
    const isTaken = fits(s, c) && likeness(sent[s]!, catalog[c]!) + score(s + 1, c + 1) >= score(s, c);
    if (!isTaken) continue;
    numbers.push(catalog[c]!.number);
    s++;
  }
  return { numbers, isGuess: ways(0, 0) > 1 };
}

/** Whether a column that was sent may be one of the catalog: by name, or by what else is known where not all its names are. */
function candidates(sent: readonly SentColumn[], catalog: readonly NumberedColumn[]) {
  const named = new Map<string, Set<number>>();
  const note = (name: string, c: number) => named.set(name, (named.get(name) ?? new Set()).add(c));
  catalog.forEach(({ name, isDropped, formerNames }, c) => {
    if (!isDropped) note(name, c);
    for (const former of formerNames) note(former, c);
  });
  const mayBe = ({ typeOid, length }: SentColumn, known: NumberedColumn) => {
    if (known.isDropped) return length === null || known.length === null || length === known.length;
    return known.isNew ? known.typeOid === typeOid : !known.isSteady;
  };
  return (s: number, c: number) => (named.get(sent[s]!.name)?.has(c) ?? true) || mayBe(sent[s]!, catalog[c]!);
}

/** For each pair of places, of what was sent from the one on and the catalog from the other on: how well and in how many ways. */
function alignments(
  sent: readonly NamedColumn[],
  catalog: readonly NumberedColumn[],
  fits: (s: number, c: number) => boolean,
) {
  const width = catalog.length + 1;
  const scores = new Float64Array((sent.length + 1) * width);
  // Two stands for any number above one.
  const ways = new Uint8Array(scores.length);
  const end = sent.length * width;
  ways[end + catalog.length] = 1;
  for (let c = catalog.length - 1; c >= 0; c--) {
    const { isDropped, mayBeWithheld, isNew } = catalog[c]!;
    const mayLack = isDropped || mayBeWithheld || isNew;
    ways[end + c] = mayLack ? ways[end + c + 1]! : 0;
    scores[end + c] = ways[end + c]! > 0 ? 0 : impossible;
  }
  for (let s = sent.length - 1; s >= 0; s--) {
    scores[s * width + catalog.length] = impossible;
    for (let c = catalog.length - 1; c >= 0; c--) {
      const at = s * width + c;
      const rest = at + width + 1;
      const isFit = fits(s, c);
      const taken = isFit ? likeness(sent[s]!, catalog[c]!) + scores[rest]! : impossible;
      const maySkip = catalog[c]!.isDropped || catalog[c]!.mayBeWithheld;
      scores[at] = maySkip ? Math.max(taken, scores[at + 1]!) : taken;
      ways[at] = Math.min(2, (maySkip ? ways[at + 1]! : 0) + (isFit ? ways[rest]! : 0));
    }
  }
  return {
    score: (s: number, c: number) => scores[s * width + c]!,
    ways: (s: number, c: number) => ways[s * width + c]!,
  };
}

/** A dropped column's type is no longer known. */
function likeness(sent: NamedColumn, known: NumberedColumn): number {
  if (known.isDropped) return 1;
  return (sent.name === known.name ? 4 : 0) + (sent.typeOid === known.typeOid ? 2 : 0);
}
