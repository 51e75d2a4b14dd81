// The publications of a connector's tables: the service's own, or one that the user owns. Notices when somebody has
// altered them, because nothing in the stream shows what was left out meanwhile.

import type { Client } from "pg";
import type { Checkpoint } from "../../../change/checkpoint.ts";
import { qualifiedName, type TableShape } from "../../../change/relation.ts";
import type { PostgresSourceConfig } from "../../../connector/config/source-config.ts";
import { MillraceError } from "../../../errors/millrace-error.ts";
import type { SourceContext } from "../../source.ts";
import { namedTables } from "../catalog/named-tables.ts";
import { readUnpublishable } from "../checks/privileges.ts";
import type { SourceTable } from "../shapes/table-shapes.ts";
import { describeInterruption } from "./interruption-wording.ts";
import { type KnownMembers, publishedTables, readMembers } from "./named-publication.ts";
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
  publishedFingerprint,
  readPublished,
} from "./publication-membership.ts";
import { unpublishableWarning } from "./unpublished-wording.ts";

/** Key of the state of the service's own publications after it altered them last. */
const ownPublicationsKey = "publications";
/** Key of the user's publication that the last stream was of; empty: the service's own. */
const streamedKey = "streamed publication";
const membershipPrefix = "published ";
const membershipKey = ({ relation }: TableShape) => `${membershipPrefix}${relation.id}`;

export class SourcePublications {
  readonly names: readonly string[];
  /** The user's publication; null: the service has its own. */
  readonly named: string | null;
  /** As they were read last. */
  #published: Published = { publications: [], memberships: new Map() };
  /** Members of the user's publication; null: they have not been read yet. */
  #members: KnownMembers | null = null;
  /** OIDs of tables that the last read has left out, as the role may not publish them. */
  unpublishable: readonly number[] = [];

  constructor(
    private readonly config: PostgresSourceConfig,
    private readonly slot: string,
    private readonly context: Pick<SourceContext, "state" | "events">,
  ) {
    const own = ownPublications(slot);
    this.named = config.replication_type.logical_replication?.publication_name ?? null;
    this.names = this.named === null ? [own.identified, own.appendOnly] : [this.named];
  }

  /** The user owns the publication: what it publishes of a table is the user's choice, now and before. */
  get areNamed(): boolean {
    return this.named !== null;
  }

  /**
   * The tables whose changes are published, or will be after `publish`. A table that was out of the publications since
   * its membership was recorded counts as unpublished. Once the service has made its own publications, a table that the
   * role may not publish is left out with a warning. Before, `publish` throws.
   *
   * Throws `publication_missing` and `publication_mismatch`.
   */
  async read(client: Client, shapes: readonly SourceTable[]): Promise<readonly SourceTable[]> {
    const published = await readPublished(client, this.names);
    this.#published = published;
    const recorded = this.context.state.get(ownPublicationsKey);
    if (this.named === null && recorded !== undefined) requireUntouched(recorded, published);
    const tables =
      this.named === null
        ? await this.#publishable(client, await withOwnCoverage(client, this.slot, shapes))
        : await this.#readNamed(client, this.named, shapes);
    const byInterruption = Map.groupBy(tables, (table) => this.#interruption(table));
    this.#warnOfInterruptions(byInterruption);
    return tables.map((table) => (this.#interruption(table) === null ? table : asUnpublished(table)));
  }

  /**
   * Publishes `tables` as `read` returned them, once sinks know which of their copies lack changes. `willMake` is awaited before anything
   * is made or altered at the source, and not called where all is as it is to be.
   *
   * Throws `table_changed` when somebody has altered the service's own publications since: they have to be read again.
   */
  async publish(
    client: Client,
    tables: readonly SourceTable[],
    willMake: () => Promise<void>,
  ): Promise<void> {
    const { state } = this.context;
    if (this.named === null) {
      this.#published = await this.#publishOwn(client, tables, willMake);
      state.set(ownPublicationsKey, JSON.stringify(this.#published.publications));
    }
    // Of the user's publication, what `read` saw: the next read finds what has changed since.
    const { memberships } = this.#published;
    for (const table of tables) state.set(membershipKey(table), memberships.get(table.relation.id) ?? null);
    // Copies of other tables no longer count: should one come back, it is copied again whatever was published meanwhile.
    const kept = new Set(tables.map(membershipKey));
    const isGone = (key: string) => key.startsWith(membershipPrefix) && !kept.has(key);
    for (const key of state.keys().filter(isGone)) state.set(key, null);
  }

  /** A table that is published as it is to be stays so, whoever owns it by now. */
  async #publishable(client: Client, tables: readonly SourceTable[]): Promise<readonly SourceTable[]> {
    const isFirst = this.context.state.get(ownPublicationsKey) === undefined;
    const plan = isFirst ? [] : await this.#plan(client, this.#published, tables);
    const planned = new Set(plan.flatMap((alteration) => alteration.tables));
    const ids = tables.map(({ relation }) => relation.id).filter((id) => planned.has(id));
    const left = await readUnpublishable(client, ids);
    this.context.events.warning("publication", left.length > 0 ? unpublishableWarning(left) : null);
    this.unpublishable = left.map(({ id }) => id);
    const isLeft = new Set(this.unpublishable);
    return tables.filter(({ relation }) => !isLeft.has(relation.id));
  }

  /** The statements that publish `tables`. */
  #plan(client: Client, { publications }: Published, tables: readonly SourceTable[]) {
    return planPublications(client, this.slot, publications, tables, this.config.partitions_as_root);
  }

  /** Alterations by somebody else meanwhile must not be undone unnoticed: see `requireUndisturbed`. */
  async #publishOwn(
    client: Client,
    tables: readonly SourceTable[],
    willMake: () => Promise<void>,
  ): Promise<Published> {
    const { partitions_as_root: viaRoot } = this.config;
    const seen = this.#published;
    // The plan first: an earlier alteration is in both the plan and `before`, a later one is in neither.
    const plan = await this.#plan(client, seen, tables);
    // A second service that was given copies of connectors must not take these for its own.
    if (plan.length > 0 || !this.context.state.hasObjects) await willMake();
    const before = await readPublished(client, this.names);
    requireSeen(seen, before, tables);
    if (plan.length === 0) return before;
    return await alterPublications(client, plan, tables, viaRoot, async () => {
      const after = await readPublished(client, this.names);
      requireUndisturbed(before, after, plan, tables);
      if ((await this.#plan(client, after, tables)).length > 0) throw alteredMeanwhile();
      return after;
    });
  }

  /**
   * Throws `publication_mismatch` where `checkpoint` lies amid a transaction of a stream of other publications: ordinals count
   * what is published, so changes that were never sent would pass for done.
   */
  requireStreamed({ partial }: Checkpoint): void {
    const streamed = this.context.state.get(streamedKey) ?? this.#streamed;
    if (partial !== null && streamed !== this.#streamed) throw changedAmid(streamed);
  }

  /** The names for a stream, once it is durable that the checkpoints from here on are of them. */
  async toStream(): Promise<readonly string[]> {
    this.context.state.set(streamedKey, this.#streamed);
    await this.context.state.durable();
    return this.names;
  }

  get #streamed(): string {
    return this.named ?? "";
  }

  /** Whether the publications differ from those that were read last. */
  async areChanged(client: Client): Promise<boolean> {
    const published = await readPublished(client, this.names);
    if (publishedFingerprint(published) !== publishedFingerprint(this.#published)) return true;
    const left = await readUnpublishable(client, this.unpublishable);
    if (left.length < this.unpublishable.length) return true;
    // Whoever prevented the last read by a lock may have released it.
    return this.named !== null && this.#members?.isCurrent === false
      ? await readMembers(client, this.named).then(() => true, rethrowUnlessLocked)
      : false;
  }

  /** Drops the service's own publications, after a beginning that cannot succeed. */
  async dropOwn(client: Client): Promise<void> {
    if (this.named !== null) return;
    this.context.state.set(ownPublicationsKey, null);
    // The record first: if the process dies in between, publications without a record are reused; a record without them
    // would be a loss.
    await this.context.state.willMakeObjects();
    await dropOwnPublications(client, this.slot, null);
  }

  async #readNamed(
    client: Client,
    name: string,
    shapes: readonly SourceTable[],
  ): Promise<readonly SourceTable[]> {
    const { catalog, partitions_as_root: viaRoot } = this.config;
    const wanted = new Set(namedTables(catalog).map((table) => qualifiedName(table)));
    const isNamed = ({ relation }: TableShape) => wanted.has(qualifiedName(relation));
    const warn = (reason: string | null) => this.context.events.warning("publication", reason);
    this.#members = await this.#readMembers(client, name);
    return await publishedTables(client, name, this.#members, shapes, viaRoot, isNamed, warn);
  }

  /**
   * While a table is locked, its membership cannot be read. Until the next read, the members count as
   * unchanged.
   */
  async #readMembers(client: Client, name: string): Promise<KnownMembers> {
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
    const membership = this.#published.memberships.get(table.relation.id);
    return interruptionSince(this.context.state.get(membershipKey(table)), membership);
  }

  #warnOfInterruptions(tables: ReadonlyMap<Interruption | null, readonly SourceTable[]>): void {
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

function asUnpublished(table: SourceTable): SourceTable {
  const { excluded = [], isListed = false } = table.coverage ?? {};
  return { ...table, coverage: { excluded, isListed, isUnpublished: true } };
}

/** What we would undo unnoticed would not be copied again. */
function requireSeen(seen: Published, now: Published, tables: readonly TableShape[]): void {
  const isSame = ({ relation: { id } }: TableShape) => seen.memberships.get(id) === now.memberships.get(id);
  if (Bun.deepEquals(seen.publications, now.publications) && tables.every(isSame)) return;
  throw alteredMeanwhile();
}

/** Tables that the plan does not touch must be as before: nobody took one out and put it back. */
function requireUndisturbed(
  before: Published,
  after: Published,
  plan: readonly Alteration[],
  tables: readonly TableShape[],
): void {
  const touched = new Set(plan.flatMap((alteration) => alteration.tables));
  const setsOptions = plan.some((alteration) => alteration.setsOptions);
  const isSame = ({ relation: { id } }: TableShape) =>
    touched.has(id) || isSameMembership(before.memberships.get(id), after.memberships.get(id), setsOptions);
  if (!tables.every(isSame)) throw alteredMeanwhile();
}

function alteredMeanwhile(): MillraceError {
  return new MillraceError("table_changed", "A publication was altered while it was being read.");
}

function changedAmid(streamed: string): MillraceError {
  return new MillraceError(
    "publication_mismatch",
    "publication_name was changed while a transaction was delivered in part, and another publication may leave out changes of the rest. " +
      `Set publication_name to ${streamed || "null"} again, Start, and change it when that transaction is delivered. ` +
      "Or send the command ReInitialize to copy the tables again.",
  );
}

function requireUntouched(recorded: string, { publications }: Published): void {
  const now = new Map(publications.map((each) => [each.name, each]));
  for (const { name, oid, operations } of JSON.parse(recorded) as Published["publications"]) {
    const publication = now.get(name);
    if (publication?.oid !== oid) {
      throw new MillraceError(
        "publication_missing",
        `Somebody dropped publication ${name}, which this connector made: changes since then cannot be had any more. ` +
          "Send the command ReInitialize to copy the tables again.",
      );
    }
    if (publication.operations === operations) continue;
    throw new MillraceError(
      "publication_mismatch",
      `Somebody altered publication ${name}, which this connector made: it publishes ${publication.operations || "nothing"} ` +
        `instead of ${operations}, and the other changes since then are missing. ` +
        "Send the command ReInitialize to copy the tables again.",
    );
  }
}
