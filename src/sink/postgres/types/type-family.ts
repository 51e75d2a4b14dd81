// Decides whether a column of a type that somebody has chosen can take values of another type, by families of built-in types. Pure.
// https://www.postgresql.org/docs/current/datatype.html

const texts = ["text", "character varying", "character"];
const families: readonly (readonly string[])[] = [
  texts,
  ["smallint", "integer", "bigint", "numeric", "real", "double precision"],
  ["date", "timestamp without time zone", "timestamp with time zone"],
  ["time without time zone", "time with time zone"],
  ["json", "jsonb"],
  ["inet", "cidr"],
  ["boolean"],
  ["uuid"],
  ["bytea"],
  ["interval"],
];

/** Types are as `format_type` prints them. Returns true also for a type that is not built in. */
export function mayHoldValuesOf(type: string, other: string): boolean {
  const own = familyOf(type);
  const others = familyOf(other);
  return own === undefined || others === undefined || own === others || own === texts;
}

/** Whether both are of one family: the server assigns values of one to a column of the other. */
export function isSameFamily(type: string, other: string): boolean {
  const own = familyOf(type);
  return own !== undefined && own === familyOf(other);
}

function familyOf(type: string): readonly string[] | undefined {
  const plain = type.replace(/\(.*\)/, "");
  return families.find((family) => family.includes(plain));
}
