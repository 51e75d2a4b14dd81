// Types of the owner's in the model of a source's schema: enums, domains and composites that are made, altered, renamed, exchanged,
// dropped, and made anew under their names.

import type { RandomAct, RandomSchema } from "./random-schema.ts";

export const typeKinds = [
  "create type",
  "add of type",
  "add of type with value",
  "retype to type",
  "alter type",
  "alter type",
  "alter type",
  "rename type",
  "exchange types",
  "make type anew",
  "drop type",
] as const;
export type TypeKind = (typeof typeKinds)[number];

export interface OwnType {
  name: string;
  readonly kind: "enum" | "domain" | "composite";
  /** Labels; attributes, of which those whose names begin with `n` are numbers. */
  readonly parts: string[];
  /** Labels that may not be used before they are committed. */
  readonly pending: string[];
}

export function ownValue({ kind, parts }: OwnType, n: number): string {
  switch (kind) {
    case "enum":
      return `'${parts[n % parts.length]}'`;
    case "domain":
      return `'${n % 500}'`;
    case "composite":
      return `'(${parts.map((part, i) => (part.startsWith("n") ? n + i : `text ${n}`)).join(",")})'`;
  }
}

/** SQL of the act; null when there is nothing that it could be done to. */
export function typeAct(schema: RandomSchema, kind: TypeKind, [a, b, c]: RandomAct["pick"]): string | null {
  const type = schema.ownTypes[b % Math.max(1, schema.ownTypes.length)];
  if (kind === "create type" || !type) return schema.ownTypes.length < 4 ? createType(schema, c) : null;
  const isUsed = (name: string) =>
    schema.tables.some(({ columns }) => columns.some((each) => each.type === name));
  switch (kind) {
    case "add of type":
    case "add of type with value":
    case "retype to type": {
      const table = schema.tables[a % Math.max(1, schema.tables.length)];
      if (!table) return null;
      const column = table.columns.slice(1)[c % Math.max(1, table.columns.length - 1)];
      const alter = `alter table ${table.name}`;
      if (kind === "retype to type") {
        if (!column) return null;
        column.type = type.name;
        return `${alter} alter ${column.name} drop default, alter ${column.name} type ${type.name} using ${ownValue(type, c)}::${type.name}`;
      }
      if (table.columns.length > 8) return null;
      const added = { name: schema.freshColumn(table), type: type.name };
      table.columns.push(added);
      const value = kind === "add of type" ? "" : ` default ${ownValue(type, c)}`;
      return `${alter} add column ${added.name} ${type.name}${value}`;
    }
    case "alter type":
      return alterType(schema, type, a, c);
    case "rename type": {
      const before = type.name;
      const name = schema.freshName("y");
      schema.release("y", before);
      return renameType(schema, type, name);
    }
    case "exchange types": {
      const other = schema.ownTypes[c % schema.ownTypes.length]!;
      if (other === type) return null;
      const [name, otherName] = [type.name, other.name];
      return [
        renameType(schema, type, "aside"),
        renameType(schema, other, name),
        renameType(schema, type, otherName),
      ].join("; ");
    }
    case "make type anew": {
      const before = type.name;
      const rename = renameType(schema, type, schema.freshName("y"));
      return `${rename}; ${createType(schema, c, before)}`;
    }
    case "drop type":
      if (isUsed(type.name)) return null;
      schema.ownTypes.splice(schema.ownTypes.indexOf(type), 1);
      schema.release("y", type.name);
      // Defaults may still name it.
      return `drop type ${type.name} cascade`;
    default:
      return kind satisfies never;
  }
}

function createType(schema: RandomSchema, n: number, name: string = schema.freshName("y")): string {
  const kind = (["enum", "domain", "composite"] as const)[n % 3]!;
  const parts = { enum: ["l1", "l2", "l3"], domain: [], composite: ["n1", "a2"] }[kind];
  schema.ownTypes.push({ name, kind, parts, pending: [] });
  switch (kind) {
    case "enum":
      return `create type ${name} as enum (${parts.map((part) => `'${part}'`).join(", ")})`;
    case "domain":
      return `create domain ${name} as ${n % 2 === 0 ? "int" : "text"}`;
    case "composite":
      return `create type ${name} as (n1 int, a2 text)`;
  }
}

function alterType(schema: RandomSchema, type: OwnType, n: number, c: number): string | null {
  const { name, kind, parts, pending } = type;
  const place = c % Math.max(1, parts.length);
  const part = parts[place];
  switch (kind) {
    case "enum": {
      const label = schema.freshName("l", [...parts, ...pending]);
      if (n % 3 === 0) {
        parts[place] = label;
        schema.release("l", part!);
        return `alter type ${name} rename value '${part}' to '${label}'`;
      }
      pending.push(label);
      return `alter type ${name} add value '${label}' ${n % 2 === 0 ? "before" : "after"} '${part}'`;
    }
    case "domain": {
      const constraint = schema.freshName("d");
      return `alter domain ${name} add constraint ${constraint} check (value <> '${1000 + c}')`;
    }
    case "composite": {
      const attribute = schema.freshName(c % 2 === 0 ? "n" : "a", parts);
      if (n % 3 === 0 || part === undefined) {
        parts.push(attribute);
        return `alter type ${name} add attribute ${attribute} ${c % 2 === 0 ? "int" : "text"}`;
      }
      if (n % 3 === 1 && parts.length > 1) {
        parts.splice(place, 1);
        schema.release(part[0]!, part);
        return `alter type ${name} drop attribute ${part}`;
      }
      const renamed = schema.freshName(part[0]!, parts);
      parts[place] = renamed;
      return `alter type ${name} rename attribute ${part} to ${renamed}`;
    }
  }
}

function renameType(schema: RandomSchema, type: OwnType, to: string): string {
  const before = type.name;
  for (const column of schema.tables.flatMap(({ columns }) => columns)) {
    if (column.type === before) column.type = to;
  }
  type.name = to;
  return `alter ${type.kind === "domain" ? "domain" : "type"} ${before} rename to ${to}`;
}
