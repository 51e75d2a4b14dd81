// The kinds of sinks that are held to the contract: one line each.

import type { SinkKind } from "./contract-bench.ts";
import { postgresKind } from "./contract-postgres.ts";
import { webhookKind } from "./contract-webhook.ts";

export const sinkKinds: readonly SinkKind[] = [postgresKind, webhookKind];
