// An index lists the columns that it only includes (INCLUDE) behind those of its key.

/** Numbers of the key's columns, in its order; `i` is the `pg_index`. */
export const keyNumbersSql = "(i.indkey::int2[])[0:i.indnkeyatts - 1]";
