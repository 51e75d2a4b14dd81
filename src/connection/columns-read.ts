// The columns that a stored expression reads, one after the other: the same at every server, however it prints the
// expression, and whatever names the columns have by now.

/** SQL for rows of (number, place). `expression`: a pg_node_tree of one table's columns. */
export const columnsRead = (expression: string) => `(
  select found.match[1]::int2 as number, found.place
  from regexp_matches(${expression}::text, ':varattno (\\d+)', 'g') with ordinality as found(match, place))`;
