// Kinds of columns that Drizzle has not in this form.

import { customType, timestamp } from "drizzle-orm/pg-core";

export const bytea = customType<{ data: Uint8Array }>({ dataType: () => "bytea" });
export const instant = (name: string) => timestamp(name, { withTimezone: true, precision: 3, mode: "date" });
