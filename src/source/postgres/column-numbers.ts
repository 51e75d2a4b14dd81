// Finds the catalog's numbers of the columns that an announcement named. It names them as they were when the change was
// logged; the catalog is read later, when columns may have been renamed, given other types, dropped or added. What holds at
// any time: numbers are given out in rising order, never again, and a dropped column keeps its own. Pure.
// https://www.postgresql.org/docs/current/catalog-pg-attribute.html

export interface NamedColumn {
  readonly name: string;
  readonly typeOid: number;
}

/** A column of the catalog, in the order of its number. */
export interface NumberedColumn extends NamedColumn {
  readonly number: number;
  readonly isDropped: boolean;
  /** What it was called before, as far as that is known. */
  readonly formerNames: readonly string[];
}

const impossible = Number.NEGATIVE_INFINITY;

/**
 * The number of each column that was `sent`, in order. Of all ways to find each of them in the catalog in rising order, the one
 * in which names and types agree best. Zeros, for "not known", when there is none.
 */
export function numberColumns(
  sent: readonly NamedColumn[],
  catalog: readonly NumberedColumn[],
): readonly number[] {
  const plain = catalog.filter(({ isDropped }) => !isDropped);
  if (sent.length === plain.length && sent.every((column, i) => isSame(column, plain[i]!))) {
    return plain.map(({ number }) => number);
  }
  const best = alignments(sent, catalog);
  const numbers: number[] = [];
  for (let s = 0, c = 0; s < sent.length; c++) {
    if (c === catalog.length || best.at(s, c) === impossible) return sent.map(() => 0);
    const taken = likeness(sent[s]!, catalog[c]!) + best.at(s + 1, c + 1);
    if (taken < best.at(s, c)) continue;
    numbers.push(catalog[c]!.number);
    s++;
  }
  return numbers;
}

/** For each pair of places: the best likeness of what was sent from the one on with the catalog from the other on. */
function alignments(sent: readonly NamedColumn[], catalog: readonly NumberedColumn[]) {
  const width = catalog.length + 1;
  const scores = new Float64Array((sent.length + 1) * width);
  for (let s = sent.length - 1; s >= 0; s--) {
    scores[s * width + catalog.length] = impossible;
    for (let c = catalog.length - 1; c >= 0; c--) {
      const taken = likeness(sent[s]!, catalog[c]!) + scores[(s + 1) * width + c + 1]!;
      scores[s * width + c] = Math.max(taken, scores[s * width + c + 1]!);
    }
  }
  return { at: (s: number, c: number) => scores[s * width + c]! };
}

/** How likely the one was the other. A dropped column's type is no longer known. */
function likeness(sent: NamedColumn, known: NumberedColumn): number {
  const typeAgrees = sent.typeOid === known.typeOid ? 2 : 0;
  if (known.formerNames.includes(sent.name)) return 12 + typeAgrees;
  if (known.isDropped) return 1;
  return (sent.name === known.name ? 12 : 0) + typeAgrees;
}

function isSame(sent: NamedColumn, known: NumberedColumn): boolean {
  return sent.name === known.name && sent.typeOid === known.typeOid;
}
