// A Postgres sink under the naming that its connector asks for.

import type { PostgresSinkConfig } from "../../connector/config/sink-config.ts";
import type { IdentifierNaming } from "../../connector/connector.ts";
import type { Sink, SinkContext } from "../sink.ts";
import type { HistoryAsked } from "./history/histories.ts";
import { PostgresSink } from "./postgres-sink.ts";
import { RenamingSink } from "./renaming-sink.ts";
import { TargetNaming } from "./schema/target-naming.ts";
import type { SinkPace } from "./sink-pace.ts";

export function createPostgresSink(
  config: PostgresSinkConfig,
  context: SinkContext,
  identifierNaming: IdentifierNaming,
  pace?: SinkPace,
  historyAsked?: HistoryAsked,
): Sink {
  const naming = new TargetNaming(config.target_schema, identifierNaming);
  const sink = new PostgresSink(config, context, naming, pace, historyAsked);
  const isRenamed = identifierNaming.FivetranNaming !== undefined || config.target_schema !== null;
  return isRenamed ? new RenamingSink(sink, naming) : sink;
}
