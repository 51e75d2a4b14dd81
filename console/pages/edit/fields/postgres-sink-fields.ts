// The fields of a Postgres sink. Pure.

import { connectionGroups, mainConnectionFields } from "./connection-fields.ts";
import { check, choice, type GroupSpec, text, union, words } from "./field-spec.ts";

const fivetran = "/identifier_naming/FivetranNaming";

export const postgresSinkGroups: readonly GroupSpec[] = [
  {
    title: "The database to write",
    isMain: true,
    fields: mainConnectionFields("/sink/postgres/connection"),
  },
  {
    title: "Names and changes of shape",
    fields: [
      text("/sink/postgres/target_schema", "Schema for all tables", {
        hint: "Left out: each table keeps its own.",
      }),
      union("/identifier_naming", "Names", {
        SourceNaming: "As they are at the source",
        FivetranNaming: "As Fivetran writes them",
      }),
      text(`${fivetran}/schema_prefix`, "Prefix of schemas", { under: fivetran }),
      choice(
        `${fivetran}/column_conflict`,
        "Two columns of one name",
        { Fail: "Fail", KeepFirst: "Keep the first" },
        { under: fivetran },
      ),
      choice(
        `${fivetran}/table_conflict`,
        "Two tables of one name",
        { Merge: "Merge them", Fail: "Fail" },
        { under: fivetran },
      ),
      words("/sink/postgres/migration_strategy/allowed", "Changes of a table's shape that are carried over", {
        Add: "New columns",
        Drop: "Dropped columns",
        Datatype: "Types",
        Nullability: "NOT NULL",
        Order: "Order",
      }),
      check("/sink/postgres/migration_strategy/disable_all", "Carry none of them over"),
      text("/sink/postgres/history_mode/append/suffix", "Behind the name of a table's history", {
        hint: "Left out: _history. A table gets a history where it is chosen.",
      }),
    ],
  },
  ...connectionGroups("/sink/postgres/connection"),
];
