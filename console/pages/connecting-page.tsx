// What is shown before the service has said who may use the console.

import { useEffect, useRef, useState } from "preact/hooks";
import { Failure } from "../parts/notice.tsx";
import { useTitle } from "../route/use-title.ts";

/** A service that is there answers much sooner. */
const patienceMs = 3_000;
const retryMs = 2_000;

export function CheckingPage() {
  useTitle("Connecting");
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), patienceMs);
    return () => clearTimeout(timer);
  }, []);
  return (
    <main class="page">
      <h1>millrace</h1>
      <p class="soft" role="status">
        {isLate
          ? "The service does not answer yet. The page goes on trying. Is the service running, and can this browser reach it?"
          : "Loading…"}
      </p>
    </main>
  );
}

interface UnreachableProps {
  readonly error: unknown;
  /** Ends when it is known whether the service answers. */
  readonly retry: () => Promise<void>;
}

export function UnreachablePage({ error, retry }: UnreachableProps) {
  useTitle("Not connected");
  const latest = useRef(retry);
  latest.current = retry;
  useEffect(() => {
    let [isEnded, timer] = [false, setTimeout(() => {})];
    // One after the other: a service that hangs would gather them, until the browser has no connection left.
    const next = () => {
      if (!isEnded) timer = setTimeout(() => void latest.current().then(next), retryMs);
    };
    next();
    return () => {
      isEnded = true;
      clearTimeout(timer);
    };
  }, []);
  return (
    <main class="page">
      <Failure title="The service cannot be used now" error={error} retry={() => void retry()} />
      <p class="soft">The page tries again by itself.</p>
    </main>
  );
}
