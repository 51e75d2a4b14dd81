// What the steps have asked the service, kept while the reader goes to and fro: the tests of both sides, and the tables of the source.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Catalog } from "../../../../src/connector/config/catalog.ts";
import type { SinkRequest } from "../../../../src/connector/config/sink-config.ts";
import type { SourceRequest } from "../../../../src/connector/config/source-config.ts";
import type { JsonObject } from "../../../../src/connector/request/merge-patch.ts";
import { type Api, answer } from "../../../api/client.ts";
import type { Form } from "../form/form-context.ts";
import { type ShownChecks, shownChecks } from "../model/checks.ts";
import { type SinkKind, sinkKindOf } from "../model/draft.ts";
import { valueAt } from "../model/pointer.ts";

export type Side = "source" | "sink";

/** An answer, and what was asked for it. */
export interface Asked<T> {
  readonly isRunning: boolean;
  readonly data: T | null;
  readonly error: unknown;
  /** Of what it was asked; another value now: it may be out of date. */
  readonly of: string;
}

const nothing = { isRunning: false, data: null, error: null, of: "" };

export interface StepData {
  readonly checks: Readonly<Record<Side, Asked<ShownChecks>>>;
  readonly runChecks: (side: Side) => Promise<void>;
  readonly catalog: Asked<Catalog["schemas"]>;
  readonly loadCatalog: () => Promise<void>;
  /** What a side is now, to compare with `of`. */
  readonly keyOf: (side: Side | "catalog") => string;
}

export function useStepData(api: Api, { draft, secretsOf }: Form): StepData {
  const source = useAsked<ShownChecks>();
  // The tests of one kind of sink say nothing of another.
  const sinks: Readonly<Record<SinkKind, ReturnType<typeof useAsked<ShownChecks>>>> = {
    postgres: useAsked<ShownChecks>(),
    webhook: useAsked<ShownChecks>(),
    kafka: useAsked<ShownChecks>(),
  };
  const sink = sinks[sinkKindOf(draft)];
  const catalog = useAsked<Catalog["schemas"]>();
  const query = secretsOf === null ? {} : { connector_id: secretsOf };
  const keyOf = (side: Side | "catalog") =>
    JSON.stringify(
      side === "catalog" ? (valueAt(draft, "/source/postgres/connection") ?? null) : draft[side],
    );
  const runChecks = (side: Side) => {
    const asked = side === "source" ? source : sink;
    return asked.ask(keyOf(side), async (signal) => {
      const options = { query, fetch: { signal } };
      const events =
        side === "source"
          ? await answer(api.validate.source.post({ source: sourceOf(draft) }, options))
          : await answer(api.validate.sink.post({ sink: draft.sink as SinkRequest }, options));
      return shownChecks(events);
    });
  };
  const loadCatalog = () =>
    catalog.ask(keyOf("catalog"), async (signal) => {
      const source = withoutCatalog(sourceOf(draft));
      const { schemas } = await answer(api.catalog.source.post({ source }, { query, fetch: { signal } }));
      return schemas;
    });
  return {
    checks: { source: source.state, sink: sink.state },
    runChecks,
    catalog: catalog.state,
    loadCatalog,
    keyOf,
  };
}

function sourceOf(draft: JsonObject): SourceRequest {
  return draft.source as SourceRequest;
}

/** What is selected does not matter to what there is, and may not be right yet. */
function withoutCatalog({ postgres }: SourceRequest): SourceRequest {
  if (!postgres) return {};
  const { catalog: _, ...rest } = postgres;
  return { postgres: rest };
}

function useAsked<T>() {
  const [state, setState] = useState<Asked<T>>(nothing);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);
  const ask = async (of: string, run: (signal: AbortSignal) => Promise<T>) => {
    running.current?.abort();
    const own = new AbortController();
    running.current = own;
    setState(({ data, of: before }) => ({
      isRunning: true,
      data: before === of ? data : null,
      error: null,
      of,
    }));
    try {
      const data = await run(own.signal);
      if (!own.signal.aborted) setState({ isRunning: false, data, error: null, of });
    } catch (error) {
      if (own.signal.aborted) return;
      setState({ isRunning: false, data: null, error, of });
      throw error;
    }
  };
  return { state, ask };
}
