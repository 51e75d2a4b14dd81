// What drizzle-kit reads to generate the migrations: `bunx drizzle-kit generate --name what_it_does`.

import { defineConfig } from "drizzle-kit";

// biome-ignore lint/style/noDefaultExport: drizzle-kit reads the default export.
export default defineConfig({ dialect: "postgresql", schema: ["./src/state/schema.ts", "./src/state/replica-tables.ts"], out: "./drizzle" });
