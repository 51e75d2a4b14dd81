import { useRef } from "preact/hooks";
import { answer } from "../../../api/client.ts";
import { lastEnd, measures, type SampleSeries, withSamples } from "../../../connector/sample-series.ts";
import { useConsole } from "../../../console-context.ts";
import { type Loaded, useLoaded } from "../../../store/use-loaded.ts";

const pollMs = 5_000;
/** As long as the service keeps them. */
const keeping = { measures, seconds: 3_600 };

/** The last hour of a connector, kept up to date. Only what is new is asked for. */
export function useSamples(id: string): Loaded<SampleSeries | null> {
  const { api } = useConsole();
  const known = useRef<SampleSeries | null>(null);
  const load = async () => {
    const since = lastEnd(known.current ? [known.current] : []);
    const { step_seconds, samples } = await answer(
      api.samples.get({ query: { connector_id: id, ...(since !== null && { since }) } }),
    );
    known.current = withSamples(known.current, samples[0], step_seconds, keeping);
    return known.current;
  };
  return useLoaded(load, [id], pollMs);
}
