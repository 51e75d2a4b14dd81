import { ago, exact } from "../text/times.ts";
import { useNow } from "./clock.ts";

/** "3 s ago"; the exact time shows on hover. `at`: RFC 3339. */
export function TimeAgo({ at }: { readonly at: string }) {
  const time = Date.parse(at);
  const now = useNow();
  return (
    <time dateTime={at} title={exact(time)}>
      {ago(time, now)}
    </time>
  );
}
