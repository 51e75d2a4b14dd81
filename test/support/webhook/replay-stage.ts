// Rows that are sent again to a webhook, from a stage that streams.

import type { ReplayResult } from "../../../src/connector/replay.ts";
import { type ReplaySpec, replayResultOf } from "../../../src/connector/task.ts";
import type { PostgresServer } from "../servers/postgres-server.ts";
import { type StageOptions, WebhookStage } from "./webhook-stage.ts";

type Keys = ReplaySpec["keys"];

export async function streamingStage(
  server: PostgresServer,
  database: string,
  sql: string,
  options: StageOptions = {},
): Promise<WebhookStage> {
  const stage = await WebhookStage.create(server, database, sql, options);
  await stage.start();
  await stage.untilRealtime();
  return stage;
}

/** `keys` left out: the whole table. */
export function specOf({ database }: WebhookStage, name: string, keys?: Keys): ReplaySpec {
  return { database, schema: "public", name, ...(keys ? { keys } : {}) };
}

/** `id`: of the task. */
export async function sentAgain(
  stage: WebhookStage,
  spec: ReplaySpec,
  id?: string,
): Promise<ReplayResult | null> {
  return replayResultOf({ spec: { Replay: spec }, result: (await stage.life.replay(spec, id))! });
}

/** Why it cannot be sent. */
export async function reasonOf(stage: WebhookStage, name: string, keys?: Keys): Promise<string> {
  return String(await stage.life.replay(specOf(stage, name, keys)).catch((error: Error) => error.message));
}
