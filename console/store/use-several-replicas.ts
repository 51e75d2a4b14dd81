import { answer } from "../api/client.ts";
import { useConsole } from "../console-context.ts";
import { useLoaded } from "./use-loaded.ts";

const everyMs = 15_000;

/** Whether several replicas share the connectors, so that it says something which of them runs one. */
export function useSeveralReplicas(): boolean {
  const { api } = useConsole();
  const { data } = useLoaded(() => answer(api.replicas.get()), [api], everyMs);
  // An answer of another form must not take the page with it.
  return (data?.replicas?.length ?? 0) > 1;
}
