// Validates a Postgres source: the order of its tests, and the facts for each. source-checks.ts and
// publication-checks.ts judge the facts. It changes nothing at the source.

import type { Client } from "pg";
import { qualifiedName } from "../../../change/relation.ts";
import { probePostgres } from "../../../connection/postgres-probe.ts";
import { config, type Finding, permission, ValidationLog } from "../../../connection/validation-log.ts";
import { selectColumn, selectTable } from "../../../connector/config/catalog-selection.ts";
import { copiesInRounds } from "../../../connector/config/copies-in-rounds.ts";
import type { PostgresSourceConfig } from "../../../connector/config/source-config.ts";
import type { TestType, ValidateEvent } from "../../../connector/validation.ts";
import { namedTables } from "../catalog/named-tables.ts";
import {
  checkOwnPublication,
  checkPublication,
  type NamedPublication,
  type WantedTables,
} from "../publication/publication-checks.ts";
import { checkSelection } from "./selection-checks.ts";
import {
  checkLongTransactions,
  checkPublicationPrivilege,
  checkRelease,
  checkReplicaIdentity,
  checkReplicationPrivilege,
  checkSelectPrivilege,
  checkSenders,
  checkSlots,
  checkToast,
  checkWalLevel,
  checkWalRetention,
} from "./source-checks.ts";
import {
  type OwnSlot,
  readOwnSlot,
  readPublicationFacts,
  readServerFacts,
  readTableFacts,
  type ServerFacts,
  type TableFacts,
} from "./source-facts.ts";

/** What the checks are given: the server, the selected tables, and the publication that the source names. */
interface SourceFacts {
  readonly server: ServerFacts;
  readonly tables: readonly TableFacts[];
  /** Those of them whose rows are logged: a root's leaves, each with a replica identity of its own. */
  readonly logged: readonly TableFacts[];
  /** All tables of the source. */
  readonly present: readonly TableFacts[];
  readonly publication: NamedPublication | null;
  /** The connector's own slot; null: it does not exist yet. */
  readonly slot: OwnSlot | null;
}

/**
 * The events of one validation: the tests in their fixed order, then `success` or `failed`. After a failure the other
 * tests are skipped. Throws `signal.reason` only.
 *
 * @param slotName the slot of the connector that has this source: while that slot exists, nobody needs to create one
 */
export async function validatePostgresSource(
  source: PostgresSourceConfig,
  signal: AbortSignal,
  slotName: string | null = null,
): Promise<ValidateEvent[]> {
  const log = new ValidationLog();
  await probePostgres(source.connection, "source", signal, log, async (client) => {
    const facts = client && log.failure === null ? await readFacts(client, source, slotName) : null;
    for (const check of checks) {
      const isNeeded = !copiesInRounds({ source: { postgres: source } }) || check.ofCopies === true;
      const finding = facts && isNeeded ? check.find(facts, source) : facts ? notStreamed : passed;
      log.record(check.test, finding);
    }
  });
  return log.finish();
}

interface Check {
  readonly test: TestType;
  /** Also needed where everything is copied and nothing streamed. */
  readonly ofCopies?: true;
  readonly find: (facts: SourceFacts, source: PostgresSourceConfig) => Finding;
}

const checks: readonly Check[] = [
  {
    test: permission("Replication", "The role may open a replication connection."),
    find: ({ server }) => checkReplicationPrivilege(server),
  },
  {
    test: permission("Select", "The role may read every selected table."),
    ofCopies: true,
    find: ({ server, tables }) => checkSelectPrivilege(server, tables),
  },
  {
    test: permission("Publication", "The role may publish the selected tables, or a publication is named."),
    find: ({ server, tables, publication }, source) =>
      publication
        ? noneNeeded
        : checkPublicationPrivilege(server, source.connection.database, tables, source.partitions_as_root),
  },
  {
    test: config("wal_level", "The log holds what logical decoding needs."),
    find: ({ server }) => checkWalLevel(server),
  },
  {
    test: config("Release", "The server publishes tables without losing changes."),
    find: ({ server }) => checkRelease(server),
  },
  {
    test: config("max_replication_slots", "A replication slot is free."),
    find: ({ server, slot }) => (slot ? slotIsThere : checkSlots(server)),
  },
  {
    test: config("max_wal_senders", "A WAL sender is free."),
    find: ({ server, slot }) => (slot?.active ? slotIsThere : checkSenders(server)),
  },
  {
    test: config("Selection", "The tables that are named exist."),
    ofCopies: true,
    find: ({ present, tables }, source) => checkSelection(present, tables, source),
  },
  {
    test: config("Publication", "The publication covers every selected table."),
    find: ({ server, publication, tables }, source) =>
      publication
        ? checkPublication(publication, tables, wantedOf(source))
        : checkOwnPublication(server, tables, wantedOf(source)),
  },
  {
    test: config("Replica identity", "Updates and deletes name the row that they change."),
    find: ({ tables, logged, publication }) =>
      checkReplicaIdentity([...new Set([...tables, ...logged])], publication === null),
  },
  {
    test: config("TOAST", "Large values that an update leaves untouched are known."),
    find: ({ logged }, source) => checkToast(logged, usesOldRow(source)),
  },
  {
    test: config("max_slot_wal_keep_size", "The server keeps the log that the slot needs."),
    find: ({ server }) => checkWalRetention(server),
  },
  {
    test: config("Open transactions", "Nothing holds back the creation of the slot."),
    find: ({ server, slot }) => (slot ? slotIsThere : checkLongTransactions(server)),
  },
];

const passed = { type: "passed" } as const;
const slotIsThere = { type: "passed", message: "The connector's own slot is there." } as const;
const notStreamed = {
  type: "skipped",
  reason: "replication_type is snapshot: nothing is streamed.",
} as const;
const noneNeeded = { type: "skipped", reason: "The source names a publication." } as const;

async function readFacts(
  client: Client,
  source: PostgresSourceConfig,
  slotName: string | null,
): Promise<SourceFacts> {
  const name = source.replication_type.logical_replication?.publication_name ?? null;
  const server = await readServerFacts(client);
  const all = await readTableFacts(client, name);
  const tables = all.filter((table) => isCarried(table, source));
  const carried = new Set(tables.map(({ id }) => id));
  return {
    server,
    tables,
    logged: all.filter(
      ({ isPartitioned, id, rootId }) => !isPartitioned && (carried.has(id) || carried.has(rootId)),
    ),
    present: all,
    slot: slotName === null ? null : await readOwnSlot(client, slotName),
    publication: name === null ? null : { name, facts: await readPublicationFacts(client, name) },
  };
}

/** Changes of a partitioned table belong to its root or to its partitions, never to both. */
function isCarried(table: TableFacts, source: PostgresSourceConfig): boolean {
  if (source.partitions_as_root ? table.isPartition : table.isPartitioned) return false;
  return selectTable(source.catalog, table.schema, table.name);
}

function wantedOf({ catalog, partitions_as_root: asRoot }: PostgresSourceConfig): WantedTables {
  const named = new Set(namedTables(catalog).map((table) => qualifiedName(table)));
  return {
    asRoot,
    isCarried: ({ schema, name }, column) => selectColumn(catalog, schema, name, column),
    isNamed: (table) => named.has(qualifiedName(table)),
  };
}

function usesOldRow(source: PostgresSourceConfig): boolean {
  return source.replication_type.logical_replication?.toast_mode !== "Placeholder";
}
