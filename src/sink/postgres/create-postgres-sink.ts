// A Postgres sink under the naming that its connector asks for.

import type { IdentifierNaming } from "../../connector/connector.ts";
import type { PostgresSinkConfig } from "../../connector/sink-config.ts";
import type { Sink, SinkContext } from "../sink.ts";
import { PostgresSink } from "./postgres-sink.ts";
import { RenamingSink } from "./renaming-sink.ts";
import type { SinkPace } from "./sink-pace.ts";
import { TargetNaming } from "./target-naming.ts";

export function createPostgresSink(
  config: PostgresSinkConfig,
  context: SinkContext,
  identifierNaming: IdentifierNaming,
  pace?: SinkPace,
): Sink {
  const naming = new TargetNaming(config.target_schema, identifierNaming);
  const sink = new PostgresSink(config, context, naming, pace);
  const isRenamed = identifierNaming.FivetranNaming !== undefined || config.target_schema !== null;
  return isRenamed ? new RenamingSink(sink, naming) : sink;
}
