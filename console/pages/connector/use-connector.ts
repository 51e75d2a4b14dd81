// The connector that the page shows, also when it has just been deleted.

import { useEffect, useRef, useState } from "preact/hooks";
import type { ApiProblem } from "../../api/problem.ts";
import type { KnownConnector } from "../../connector/known-connector.ts";
import { useConsole } from "../../console-context.ts";
import { useStore } from "../../store/store.ts";

export type ShownConnector =
  | { readonly kind: "loading" }
  /** The service has not told yet, and does not now. */
  | { readonly kind: "unreached"; readonly problem: ApiProblem }
  | { readonly kind: "unknown" }
  /** It was there. */
  | { readonly kind: "deleted" }
  | { readonly kind: "known"; readonly entry: KnownConnector };

/** Counters are no events: they are asked for while somebody looks. */
const refreshMs = 2_500;

export function useConnector(id: string): ShownConnector {
  const { live } = useConsole();
  const isListed = useStore(live.connectors, (all) => all !== null);
  const entry = useStore(live.connectors, (all) => all?.get(id) ?? null);
  const problem = useStore(live.problem);
  const wasThere = useRef(false);
  const isAsked = useAskedAgain(id);
  if (entry) {
    wasThere.current = true;
    return { kind: "known", entry };
  }
  if (wasThere.current) return { kind: "deleted" };
  // The list may be older than a connector that has just been made.
  if (isListed && isAsked) return { kind: "unknown" };
  return problem ? { kind: "unreached", problem } : { kind: "loading" };
}

/** True once the service was asked for this one. */
function useAskedAgain(id: string): boolean {
  const { live } = useConsole();
  const [isAsked, setAsked] = useState(false);
  useEffect(() => {
    let [isEnded, timer] = [false, setTimeout(() => {})];
    let isFirst = true;
    const ask = async () => {
      // One that is not there is not asked for again: an event, or the list, tells when it is made.
      const isThere = live.connectors.value?.has(id) === true;
      if (!document.hidden && (isFirst || isThere)) await live.refresh(id);
      isFirst = false;
      if (isEnded) return;
      setAsked(true);
      timer = setTimeout(ask, refreshMs);
    };
    void ask();
    return () => {
      isEnded = true;
      clearTimeout(timer);
    };
  }, [live, id]);
  return isAsked;
}
