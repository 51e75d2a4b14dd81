import { useRef } from "preact/hooks";
import { answer } from "../../../api/client.ts";
import { useConsole } from "../../../console-context.ts";
import { type Loaded, useLoaded } from "../../../store/use-loaded.ts";
import { lastEnd, type SampleSeries, withSamples } from "./sample-series.ts";

const pollMs = 5_000;

/** The last hour of a connector, kept up to date. Only what is new is asked for. */
export function useSamples(id: string): Loaded<SampleSeries | null> {
  const { api } = useConsole();
  const known = useRef<SampleSeries | null>(null);
  const load = async () => {
    const since = known.current ? { since: lastEnd(known.current) } : {};
    const added = await answer(api.samples.get({ query: { connector_id: id, ...since } }));
    known.current = withSamples(known.current, added);
    return known.current;
  };
  return useLoaded(load, [id], pollMs);
}
