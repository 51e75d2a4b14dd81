// What the connector's tables are published by: the service's own publications, or one that the user owns. Notices when
// somebody has tampered with them, as nothing in the stream would tell what was left out.

import type { Client } from "pg";
import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import type { PostgresSourceConfig } from "../../../connector/config/source-config.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { SourceContext } from "../../source.ts";
import { namedTables } from "../catalog/named-tables.ts";
import { listedNames } from "../checks/listed-names.ts";
import type { SourceTable } from "../shapes/table-shapes.ts";
import { publishedTables, readMembers, type SeenMembers } from "./named-publication.ts";
import {
  type Alteration,
  alterPublications,
  dropOwnPublications,
  ownPublications,
  planPublications,
  withOwnCoverage,
} from "./publication.ts";
import {
  type Interruption,
  interruptionSince,
  isSameMembership,
  type Published,
  printPublished,
  readPublished,
} from "./publication-marks.ts";

/** The note of what the service's own publications were when it altered them last. */
const ownNote = "publications";
const markNote = ({ relation }: TableShape) => `published ${relation.id}`;

export class SourcePublications {
  readonly names: readonly string[];
  /** The user's own; null: the service makes its own. */
  readonly #named: string | null;
  /** As they were seen last. */
  #published: Published = { publications: [], marks: new Map() };
  /** Of the user's own; null: they were not seen yet. */
  #members: SeenMembers | null = null;

  constructor(
    private readonly config: PostgresSourceConfig,
    private readonly slot: string,
    private readonly context: Pick<SourceContext, "notes" | "events">,
  ) {
    const own = ownPublications(slot);
    this.#named = config.replication_type.logical_replication?.publication_name ?? null;
    this.names = this.#named === null ? [own.identified, own.appendOnly] : [this.#named];
  }

  /** They are the user's own: what they publish of a table is the user's choice, now and before. */
  get areNamed(): boolean {
    return this.#named !== null;
  }

  /**
   * The tables whose changes come, or will when `publish` has been called. One that was out of the publications since its
   * changes were noted to come counts as unpublished.
   *
   * Throws `publication_missing` and `publication_mismatch`.
   */
  async look(client: Client, shapes: readonly SourceTable[]): Promise<readonly SourceTable[]> {
    const published = await readPublished(client, this.names);
    this.#published = published;
    const noted = this.context.notes.get(ownNote);
    if (this.#named === null && noted !== undefined) requireUntouched(noted, published);
    const tables =
      this.#named === null
        ? await withOwnCoverage(client, this.slot, shapes)
        : await this.#lookAtNamed(client, this.#named, shapes);
    const byInterruption = Map.groupBy(tables, (table) => this.#interruption(table));
    this.#tellInterrupted(byInterruption);
    return tables.map((table) => (this.#interruption(table) === null ? table : asUnpublished(table)));
  }

  /**
   * Publishes `tables` as `look` told them, once sinks know which of their copies have missed something.
   *
   * Throws `table_changed` when somebody altered the service's own since: to be looked at again.
   */
  async publish(client: Client, tables: readonly SourceTable[]): Promise<void> {
    const { notes } = this.context;
    if (this.#named === null) {
      this.#published = await this.#publishOwn(client, tables);
      notes.set(ownNote, JSON.stringify(this.#published.publications));
    }
    // Of the user's own, what `look` saw: what has become of it since is for the next look to find.
    const { marks } = this.#published;
    for (const table of tables) notes.set(markNote(table), marks.get(table.relation.id) ?? null);
  }

  /** What somebody else does to the publications meanwhile is not put right unseen: see `requireUndisturbed`. */
  async #publishOwn(client: Client, tables: readonly SourceTable[]): Promise<Published> {
    const { partitions_as_root: viaRoot } = this.config;
    const planFrom = ({ publications }: Published) =>
      planPublications(client, this.slot, publications, tables, viaRoot);
    const seen = this.#published;
    // The plan first: what is done to them before it is in both, what is done behind it is in neither.
    const plan = await planFrom(seen);
    const before = await readPublished(client, this.names);
    requireSeen(seen, before, tables);
    if (plan.length === 0) return before;
    return await alterPublications(client, plan, tables, viaRoot, async () => {
      const after = await readPublished(client, this.names);
      requireUndisturbed(before, after, plan, tables);
      if ((await planFrom(after)).length > 0) throw alteredMeanwhile();
      return after;
    });
  }

  /** Whether the publications are other than they were seen last. */
  async areChanged(client: Client): Promise<boolean> {
    const published = await readPublished(client, this.names);
    if (printPublished(published) !== printPublished(this.#published)) return true;
    // Whoever kept the last look from seeing them may have let go.
    return this.#named !== null && this.#members?.isCurrent === false
      ? await readMembers(client, this.#named).then(() => true, rethrowUnlessLocked)
      : false;
  }

  /** Drops the service's own, for a beginning that cannot succeed. */
  async dropOwn(client: Client): Promise<void> {
    if (this.#named !== null) return;
    this.context.notes.set(ownNote, null);
    // Should the process die in between, publications without a note are taken over; a note without them would be a loss.
    await this.context.notes.saved();
    await dropOwnPublications(client, this.slot, null);
  }

  async #lookAtNamed(
    client: Client,
    name: string,
    shapes: readonly SourceTable[],
  ): Promise<readonly SourceTable[]> {
    const { catalog, partitions_as_root: viaRoot } = this.config;
    const wanted = namedTables(catalog);
    const isNamed = ({ relation }: TableShape) =>
      wanted.some((table) => table.schema === relation.schema && table.name === relation.name);
    const warn = (reason: string | null) => this.context.events.warning("publication", reason);
    this.#members = await this.#membersNow(client, name);
    return await publishedTables(client, name, this.#members, shapes, viaRoot, isNamed, warn);
  }

  /** While a table is locked nobody is told what is published: what was is taken to be so still, until the next look. */
  async #membersNow(client: Client, name: string): Promise<SeenMembers> {
    const warn = (reason: string | null) => this.context.events.warning("locked publication", reason);
    try {
      const members = await readMembers(client, name);
      warn(null);
      return { members, isCurrent: true };
    } catch (error) {
      rethrowUnlessLocked(error);
      if (this.#members === null) throw error;
      warn((error as MillraceError).message);
      return { ...this.#members, isCurrent: false };
    }
  }

  #interruption(table: SourceTable): Interruption | null {
    const mark = this.#published.marks.get(table.relation.id);
    return interruptionSince(this.context.notes.get(markNote(table)), mark);
  }

  #tellInterrupted(tables: ReadonlyMap<Interruption | null, readonly SourceTable[]>): void {
    const reasons = [...tables].flatMap(([interruption, those]) =>
      interruption === null ? [] : describeInterruption(interruption, this.names.join(", "), those),
    );
    this.context.events.warning("interruption", reasons.length > 0 ? reasons.join(" ") : null);
  }
}

function rethrowUnlessLocked(error: unknown): false {
  if (error instanceof MillraceError && error.code === "table_unreadable") return false;
  throw error;
}

function describeInterruption(
  interruption: Interruption,
  publications: string,
  tables: readonly SourceTable[],
): string {
  const names = listedNames(tables.map(({ relation }) => qualifiedName(relation)));
  switch (interruption) {
    case "removed":
      return (
        `Somebody took ${names} out of publication ${publications}, for a while at least: ` +
        "copied again, as the changes in between are missing."
      );
    case "altered":
      return (
        `Publication ${publications} was altered, or may have been: ${names} copied again, ` +
        "as changes that it did not publish for a while are missing."
      );
    case "rewritten":
      return (
        `${names} got other files: copied again, as changes are missing if it was made unlogged for a while. ` +
        `Postgres lets nobody do so with a table that publication ${publications} lists by its name.`
      );
    default:
      return interruption satisfies never;
  }
}

function asUnpublished(table: SourceTable): SourceTable {
  const { excluded = [], isListed = false } = table.coverage ?? {};
  return { ...table, coverage: { excluded, isListed, isUnpublished: true } };
}

/** What is put right unseen would not be copied again. */
function requireSeen(seen: Published, now: Published, tables: readonly TableShape[]): void {
  const isSame = ({ relation: { id } }: TableShape) => seen.marks.get(id) === now.marks.get(id);
  if (Bun.deepEquals(seen.publications, now.publications) && tables.every(isSame)) return;
  throw alteredMeanwhile();
}

/** Of tables that the plan does not touch, everything is as it was before: nobody took one out and put it back. */
function requireUndisturbed(
  before: Published,
  after: Published,
  plan: readonly Alteration[],
  tables: readonly TableShape[],
): void {
  const touched = new Set(plan.flatMap((alteration) => alteration.tables));
  const setsOptions = plan.some((alteration) => alteration.setsOptions);
  const isSame = ({ relation: { id } }: TableShape) =>
    touched.has(id) || isSameMembership(before.marks.get(id), after.marks.get(id), setsOptions);
  if (!tables.every(isSame)) throw alteredMeanwhile();
}

function alteredMeanwhile(): MillraceError {
  return new MillraceError("table_changed", "A publication was altered while it was looked at.");
}

function requireUntouched(noted: string, { publications }: Published): void {
  const now = new Map(publications.map((each) => [each.name, each]));
  for (const { name, oid, operations } of JSON.parse(noted) as Published["publications"]) {
    const publication = now.get(name);
    if (publication?.oid !== oid) {
      throw new MillraceError(
        "publication_missing",
        `Somebody dropped publication ${name}, which this connector made: changes since then cannot be had any more. ` +
          "Send the command ReIntialize to copy the tables again.",
      );
    }
    if (publication.operations === operations) continue;
    throw new MillraceError(
      "publication_mismatch",
      `Somebody altered publication ${name}, which this connector made: it publishes ${publication.operations || "nothing"} ` +
        `instead of ${operations}, and the other changes since then are missing. ` +
        "Send the command ReIntialize to copy the tables again.",
    );
  }
}
