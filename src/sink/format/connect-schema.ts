// Schemas of Kafka Connect, as its JSON converter embeds them with a payload.
// https://kafka.apache.org/documentation/#connect_development_schemas

export interface ConnectSchema {
  readonly type: string;
  readonly optional: boolean;
  readonly name?: string;
  readonly version?: number;
  readonly parameters?: Readonly<Record<string, string>>;
  readonly items?: ConnectSchema;
  readonly fields?: readonly ConnectField[];
}

/** One of a struct. */
export type ConnectField = ConnectSchema & { readonly field: string };

export const plain = (type: string): ConnectSchema => ({ type, optional: true });

export const connectField = (name: string, type: string, optional: boolean): ConnectField => ({
  type,
  optional,
  field: name,
});

/** The JSON before the payload. */
export function schemaOpening(schema: ConnectSchema): string {
  return `{"schema":${JSON.stringify(schema)},"payload":`;
}
