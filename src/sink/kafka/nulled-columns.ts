// Tells people, once for each column, that a value of it is null in a message, as its Avro type cannot hold it.

import { qualifiedName, type Relation } from "../../change/relation.ts";
import { listedNames } from "../../errors/listed-names.ts";

export class NulledColumns {
  readonly #names = new Set<string>();

  constructor(private readonly warn: (reason: string) => void) {}

  add(relation: Relation, column: number): void {
    const name = `${qualifiedName(relation)}.${relation.columns[column]!.name}`;
    if (this.#names.has(name)) return;
    this.#names.add(name);
    // The last one is always named.
    this.warn(
      `Avro cannot hold some values of ${listedNames([...this.#names].reverse(), 3)}: they are null in the messages. Such are arrays of several dimensions, ` +
        "and a numeric that is NaN or infinite, for which decimal_handling_mode String has words.",
    );
  }
}
