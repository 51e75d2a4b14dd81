// The generated columns of a source's tables. A sink that can compute one does so; otherwise it is sent where the
// server publishes it, or left out with a warning: a copy that the stream does not keep up to date would hold old values.

import type { Client } from "pg";
import type { AskComputed, ComputedAnswer, ComputedColumns } from "../../../change/computed-columns.ts";
import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import { serverVersion } from "../../../connection/server-version.ts";
import { listedNames } from "../../../errors/listed-names.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { SourceContext } from "../../source.ts";
import type { TableSelection } from "../catalog/table-selection.ts";
import {
  type Choice,
  chooseGenerated,
  computable,
  firstWithGenerated,
  type Sending,
} from "./generated-choice.ts";
import { type GeneratedFacts, readGeneratedFacts, readPublishedGenerated } from "./generated-facts.ts";
import { readTableShapes, type SelectedGenerated, type SourceTable } from "./table-shapes.ts";

interface Reading {
  readonly selection: TableSelection;
  readonly partitionsAsRoot: boolean;
}

export class GeneratedColumns {
  /** Of the last read, by `id number`. */
  #choices = new Map<string, Choice>();

  /** `publication`: the user's; null: the connector's own; undefined: there is no stream. */
  constructor(
    private readonly reading: Reading,
    private readonly context: Pick<SourceContext, "state" | "events">,
    private readonly publication: string | null | undefined,
  ) {}

  /** Whether a column is sent, as of the last read. */
  readonly sends = (tableId: number, number: number): boolean =>
    this.#choices.get(`${tableId} ${number}`)?.kind === "sent";

  /** Whether the stream's column of this name is to be left out. It may be a name of before: the stream may be far behind. */
  readonly leavesOut = (tableId: number, column: string): boolean =>
    this.#unsentNames(tableId).includes(column);

  /**
   * The stream has brought a generated column, and kept it. Throws `table_changed` where it is not to be sent: the next run leaves
   * it out under this name.
   */
  requireSent(tableId: number, number: number, name: string): void {
    if (this.sends(tableId, number)) return;
    this.#rememberUnsent(tableId, [...this.#unsentNames(tableId), name]);
    throw new MillraceError(
      "table_changed",
      `The generated column ${name} has come, which may tell what the catalog hides: the run begins again.`,
    );
  }

  /**
   * The selected tables, with the generated columns that are sent among their columns. `ask` absent: the sink computes
   * none. `isStreaming`: a stream is open. It leaves columns out as of when it met their table: throws `table_changed`
   * when one of them is to be sent from now on.
   */
  async read(
    client: Client,
    ask: AskComputed | undefined,
    isStreaming: boolean,
  ): Promise<readonly SourceTable[]> {
    const { selection, partitionsAsRoot } = this.reading;
    const tables = await readTableShapes(client, selection, partitionsAsRoot);
    const generated = tables.filter(({ generatedColumns }) => generatedColumns.length > 0);
    const choices = await this.#choose(client, generated, ask);
    const isNewlySent = ([key, { kind }]: readonly [string, Choice]) =>
      kind === "sent" && (this.#choices.get(key) ?? { kind }).kind !== "sent";
    const isChanged = isStreaming && [...choices].some(isNewlySent);
    if (isChanged) {
      throw new MillraceError(
        "table_changed",
        "A generated column is sent from here on: the run begins again.",
      );
    }
    // Not before: whoever reads again must meet the same.
    this.#choices = choices;
    for (const table of tables) this.#noteUnsent(table);
    this.#warn(generated);
    const sent = generated.filter((table) => this.#numbersOf(table, "sent").length > 0);
    const ids = sent.map(({ relation }) => relation.id);
    const again =
      ids.length === 0 ? [] : await readTableShapes(client, selection, partitionsAsRoot, ids, this.sends);
    const byId = new Map(again.map((table) => [table.relation.id, table]));
    return tables.map((table) => this.#withComputed(byId.get(table.relation.id) ?? table));
  }

  /**
   * A table counts as unpublished up to now when it sends a column that it did not send when it was published last: a
   * copy from before lacks its values.
   */
  withCoverage(tables: readonly SourceTable[]): readonly SourceTable[] {
    const isNew = (table: SourceTable) => {
      const known = JSON.parse(this.context.state.get(sentKey(table)) ?? "[]") as number[];
      return table.sentGenerated.some((number) => !known.includes(number));
    };
    return tables.map((table) => {
      const { coverage } = table;
      return coverage && isNew(table) ? { ...table, coverage: { ...coverage, isUnpublished: true } } : table;
    });
  }

  /** The tables' changes are published as they were read. */
  published(tables: readonly SourceTable[]): void {
    for (const table of tables) {
      const { sentGenerated: sent } = table;
      this.context.state.set(sentKey(table), sent.length === 0 ? null : JSON.stringify(sent));
    }
  }

  async #choose(
    client: Client,
    tables: readonly SourceTable[],
    ask: AskComputed | undefined,
  ): Promise<Map<string, Choice>> {
    const { selection } = this.reading;
    const ids = tables.map(({ relation }) => relation.id);
    const facts = new Map(
      (await readGeneratedFacts(client, ids)).map((each) => [`${each.tableId} ${each.number}`, each]),
    );
    const version = await serverVersion(client);
    const sending = await this.#sending(client, ids, version);
    const known = (table: SourceTable) =>
      table.generatedColumns.flatMap((each) => {
        const found = facts.get(keyOf(table, each));
        return found ? [[each, found] as const] : [];
      });
    const asked = tables.map((table): TableShape => {
      const columns = known(table).map(([each, found]) => computable(table, each, found, selection, sending));
      return { ...table, generated: columns.filter((column) => typeof column !== "string") };
    });
    const ofAny = asked.filter(({ generated = [] }) => generated.length > 0);
    const answers = ask ? await ask(ofAny, version) : null;
    const choice = (table: SourceTable, each: SelectedGenerated, found: GeneratedFacts) =>
      chooseGenerated(table, each, found, selection, sending, answerTo(answers, table, each));
    return new Map(
      tables.flatMap((table) =>
        known(table).map(([each, found]) => [keyOf(table, each), choice(table, each, found)] as const),
      ),
    );
  }

  async #sending(client: Client, ids: readonly number[], version: number): Promise<Sending> {
    const { publication } = this;
    if (publication === undefined) return { stream: null };
    const isAsked = publication !== null && version >= firstWithGenerated && ids.length > 0;
    const published = isAsked ? await readPublishedGenerated(client, publication, ids) : new Set<string>();
    return { stream: { version, publication, published } };
  }

  #withComputed(table: SourceTable): SourceTable {
    const computed = table.generatedColumns.flatMap((each) => {
      const choice = this.#choices.get(keyOf(table, each));
      return choice?.kind === "computed" ? [choice] : [];
    });
    if (computed.length === 0) return table;
    const there = computed.filter(({ isThere }) => isThere);
    return {
      ...table,
      generated: computed.map(({ column }) => column),
      computedAtSink: there.map(({ column: { column } }) => ({ number: column.number, name: column.name })),
    };
  }

  /** Under a name that another column has by now, it can no longer be told from that. */
  #noteUnsent(table: SourceTable): void {
    const { relation, generatedColumns } = table;
    const sent = this.#numbersOf(table, "sent");
    const [carried, unsent] = [relation.columns.map(({ name }) => name), this.#unsentNames(relation.id)];
    for (const { column } of generatedColumns)
      (sent.includes(column.number) ? carried : unsent).push(column.name);
    this.#rememberUnsent(
      relation.id,
      unsent.filter((name) => !carried.includes(name)),
    );
  }

  #unsentNames(tableId: number): string[] {
    return JSON.parse(this.context.state.get(unsentKey(tableId)) ?? "[]") as string[];
  }

  #rememberUnsent(tableId: number, names: readonly string[]): void {
    const value = names.length === 0 ? null : JSON.stringify([...new Set(names)]);
    this.context.state.set(unsentKey(tableId), value);
  }

  #numbersOf(table: SourceTable, kind: Choice["kind"]): readonly number[] {
    const numbers = table.generatedColumns.map(({ column }) => column.number);
    return numbers.filter((number) => this.#choices.get(`${table.relation.id} ${number}`)?.kind === kind);
  }

  #warn(tables: readonly SourceTable[]): void {
    const reasons = tables.flatMap((table) =>
      table.generatedColumns.flatMap((each) => {
        const choice = this.#choices.get(keyOf(table, each));
        if (choice?.kind !== "left out") return [];
        return [`${qualifiedName(table.relation)}.${each.column.name} (${choice.reason})`];
      }),
    );
    this.context.events.warning(
      "generated columns",
      reasons.length === 0
        ? null
        : `Generated columns are left out: ${listedNames(reasons)}. What a sink has of them stays ` +
            "as it is. Exclude them in the catalog to end this warning.",
    );
  }
}

const sentKey = ({ relation }: SourceTable) => `generated columns of ${relation.id}`;
const unsentKey = (tableId: number) => `generated columns left out of ${tableId}`;
const keyOf = ({ relation }: SourceTable, { column }: SelectedGenerated) => `${relation.id} ${column.number}`;

function answerTo(
  answers: ComputedColumns | null,
  { relation }: SourceTable,
  { column }: SelectedGenerated,
): ComputedAnswer {
  if (answers === null) return { isComputed: false, reason: "it computes none" };
  const answer = answers.get(relation.id)?.get(column.number);
  return answer ?? { isComputed: false, reason: "it was not asked" };
}
