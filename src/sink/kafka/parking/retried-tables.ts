// The tables of parked rows, in the shape that they had. One whose schema the registry refused is asked for again with each retry; once it is
// taken, rows of the stream are sent too.

import type { Relation } from "../../../change/relation.ts";
import type { MillraceError } from "../../../errors/millrace-error.ts";
import { compileTable } from "../../format/compiled-table.ts";
import type { KafkaTable } from "../message-writer.ts";

/** Shapes that are kept compiled. */
const mostTables = 100;

export class RetriedTables {
  readonly #compiled = new Map<string, KafkaTable>();
  /** Tables of the stream, by their shape. */
  readonly #refused = new Map<string, KafkaTable[]>();

  constructor(private readonly compile: (relation: Relation) => Promise<KafkaTable>) {}

  /** Throws what speaks against it. */
  async of(relation: Relation): Promise<KafkaTable> {
    const shape = JSON.stringify(relation);
    const known = this.#compiled.get(shape);
    if (known) return known;
    const table = await this.compile(relation);
    for (const refused of this.#refused.get(shape) ?? []) Object.assign(refused, table);
    this.#refused.delete(shape);
    if (this.#compiled.size >= mostTables) this.#compiled.clear();
    this.#compiled.set(shape, table);
    return table;
  }

  /** A table whose rows cannot be sent: each of them throws `refusal`. */
  refused(
    relation: Relation,
    place: Pick<KafkaTable, "headers" | "queues">,
    refusal: MillraceError,
  ): KafkaTable {
    const writeRow = () => {
      throw refusal;
    };
    const table: KafkaTable = { ...compileTable(relation, { writeRow }), key: null, ...place };
    const shape = JSON.stringify(relation);
    this.#refused.set(shape, [...(this.#refused.get(shape) ?? []), table]);
    return table;
  }
}
