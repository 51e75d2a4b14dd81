// Finds the catalog numbers of the columns that an announcement names. It names them as they were when the change was
// logged. The catalog is read later, when columns may have been renamed, altered, dropped or added. What always holds:
// column numbers rise, none is used again, and a dropped column keeps its number. Pure.
// https://www.postgresql.org/docs/current/catalog-pg-attribute.html

export interface NamedColumn {
  readonly name: string;
  readonly typeOid: number;
}

export interface SentColumn extends NamedColumn {
  /** As `NumberedColumn.length`. */
  readonly length: number | null;
}

/** A column of the catalog, in the order of numbers. */
export interface NumberedColumn extends NamedColumn {
  readonly number: number;
  readonly isDropped: boolean;
  /** Earlier names, as far as they are known. */
  readonly formerNames: readonly string[];
  /** Nobody read it before the change was made: it may not have existed. */
  readonly isNew: boolean;
  /** It had its present name then. */
  readonly isUnchanged: boolean;
  /** Length of its values in bytes, as in `pg_type.typlen`; null: not known. */
  readonly length: number | null;
  /** It may be missing from what was sent. */
  readonly mayBeWithheld: boolean;
}

export interface ColumnNumbers {
  /** For each column that was sent, in order; all zeros when no assignment is possible. */
  readonly numbers: readonly number[];
  /** Other assignments are possible too: this is the likeliest. */
  readonly isGuess: boolean;
}

const impossible = Number.NEGATIVE_INFINITY;

/**
 * Assigns each column of `sent` to a column of `catalog`, in ascending order: by a name that the column has or had,
 * where names are known. Of several assignments it takes the one with the most agreement. A column that still exists
 * must have been sent if a higher number was sent, and in any case if it was read before the change.
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
    const isTaken = fits(s, c) && similarity(sent[s]!, catalog[c]!) + score(s + 1, c + 1) >= score(s, c);
    if (!isTaken) continue;
    numbers.push(catalog[c]!.number);
    s++;
  }
  return { numbers, isGuess: ways(0, 0) > 1 };
}

/**
 * Whether a sent column may be one of the catalog: by name, or, where not all of its names are known, by what else is
 * known.
 */
function candidates(sent: readonly SentColumn[], catalog: readonly NumberedColumn[]) {
  const named = new Map<string, Set<number>>();
  const add = (name: string, c: number) => named.set(name, (named.get(name) ?? new Set()).add(c));
  catalog.forEach(({ name, isDropped, formerNames }, c) => {
    if (!isDropped) add(name, c);
    for (const former of formerNames) add(former, c);
  });
  const mayBe = ({ typeOid, length }: SentColumn, known: NumberedColumn) => {
    if (known.isDropped) return length === null || known.length === null || length === known.length;
    return known.isNew ? known.typeOid === typeOid : !known.isUnchanged;
  };
  return (s: number, c: number) => (named.get(sent[s]!.name)?.has(c) ?? true) || mayBe(sent[s]!, catalog[c]!);
}

/** For each suffix of `sent` and each suffix of `catalog`: the best score, and the number of assignments. */
function alignments(
  sent: readonly NamedColumn[],
  catalog: readonly NumberedColumn[],
  fits: (s: number, c: number) => boolean,
) {
  const width = catalog.length + 1;
  const scores = new Float64Array((sent.length + 1) * width);
  // Counts up to two: two means several.
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
      const taken = isFit ? similarity(sent[s]!, catalog[c]!) + scores[rest]! : impossible;
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

/** The type of a dropped column is not known any more. */
function similarity(sent: NamedColumn, known: NumberedColumn): number {
  if (known.isDropped) return 1;
  return (sent.name === known.name ? 4 : 0) + (sent.typeOid === known.typeOid ? 2 : 0);
}
