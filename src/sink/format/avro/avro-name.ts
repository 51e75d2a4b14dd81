// Names that Avro allows: letters, digits and `_`, no digit first. What it does not allow becomes `_`, by the rules of Debezium's
// `schema.name.adjustment.mode` and `field.name.adjustment.mode`, `avro`.
// https://avro.apache.org/docs/1.12.0/specification/#names

/** A full name with dots between its parts. Parts that begin with a digit, or are empty, begin with `_`. */
export function avroFullName(name: string): string {
  return name
    .replaceAll(/[^A-Za-z0-9_.]/g, "_")
    .replace(/^[^A-Za-z_]/, "_")
    .replaceAll(/\.(?=[0-9.]|$)/g, "._");
}

function avroFieldName(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9_]/g, "_").replace(/^(?=[0-9]|$)/, "_");
}

/**
 * The names of a record's fields. Where two become one, the later one gets a number behind it; a name that is allowed as it is never
 * changes.
 */
export function avroFieldNames(names: readonly string[]): readonly string[] {
  const taken = new Set(names.filter((name) => avroFieldName(name) === name));
  return names.map((name) => {
    const wanted = avroFieldName(name);
    if (wanted === name) return name;
    let free = wanted;
    for (let number = 2; taken.has(free); number++) free = `${wanted}_${number}`;
    taken.add(free);
    return free;
  });
}
