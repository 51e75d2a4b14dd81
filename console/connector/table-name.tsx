interface TableNameProps {
  readonly schema: string;
  readonly name: string;
}

/** A table as people know it. Each name keeps its own direction. */
export function TableName({ schema, name }: TableNameProps) {
  return (
    <span class="table-name">
      <span class="name soft">{schema}</span>
      <span class="soft">.</span>
      <span class="name strong">{name}</span>
    </span>
  );
}
