// Asks before what was typed is lost.

import { useEffect, useRef, useState } from "preact/hooks";
import { Confirm } from "../../parts/confirm.tsx";
import { holdMoves } from "../../route/location.ts";
import { routeOf } from "../../route/route.ts";

export function LeaveGuard({ isDirty }: { readonly isDirty: () => boolean }) {
  const [move, setMove] = useState<(() => void) | null>(null);
  const latest = useRef(isDirty);
  latest.current = isDirty;
  const isLeaving = useRef(false);
  useEffect(() => {
    const here = location.pathname + location.search;
    const release = holdMoves((to, makeMove) => {
      if (isLeaving.current || !latest.current() || isSamePage(here, to)) return false;
      setMove(() => makeMove);
      return true;
    });
    const ask = (event: BeforeUnloadEvent) => {
      if (latest.current() && !isLeaving.current) event.preventDefault();
    };
    addEventListener("beforeunload", ask);
    return () => {
      release();
      removeEventListener("beforeunload", ask);
    };
  }, []);
  if (move === null) return null;
  const leave = async () => {
    isLeaving.current = true;
    move();
  };
  return (
    <Confirm
      title="Leave without saving?"
      action="Leave"
      isDangerous
      run={leave}
      onClose={() => setMove(null)}
    >
      <p>What you have typed here is not saved, and will be lost.</p>
    </Confirm>
  );
}

/** Steps of one form are one page. */
function isSamePage(one: string, other: string): boolean {
  return keyOf(one) === keyOf(other);
}

function keyOf(address: string): string {
  const [path = "", search = ""] = address.split(/(?=\?)/);
  const { step: _, ...page } = { step: null, ...routeOf(path, search) };
  return JSON.stringify(page);
}
