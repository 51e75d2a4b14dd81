import type { Api } from "../../api/client.ts";
import { Scrolled } from "../../parts/scrolled.tsx";
import { Link } from "../../route/link.tsx";
import { plural } from "../../text/numbers.ts";
import { duration } from "../../text/times.ts";

type Service = NonNullable<Awaited<ReturnType<Api["service"]["get"]>>["data"]>;

/** From here on a thread is so busy that what it serves waits. */
const lateMs = 500;

/** The threads and how late their event loops were. */
export function ThreadTable({ threads }: Pick<Service, "threads">) {
  return (
    <div class="stack tight">
      <h2 id="threads">{plural(threads.length, "thread")}</h2>
      <p class="soft small">A thread that is late for more than half a second does more work than it can.</p>
      <Scrolled labelledBy="threads">
        <table>
          <thead>
            <tr>
              <th scope="col">Thread</th>
              <th scope="col">Connector</th>
              <th scope="col" class="number">
                Late at most
              </th>
            </tr>
          </thead>
          <tbody>
            {threads.map(({ connector_id, thread, loop_delay_ms }) => (
              <tr key={`${thread} ${connector_id}`}>
                <th scope="row">{thread}</th>
                <td class="name">
                  {connector_id && (
                    <Link to={{ page: "connector", id: connector_id, tab: "overview" }}>{connector_id}</Link>
                  )}
                </td>
                <td class={`number ${loop_delay_ms > lateMs ? "late" : ""}`}>
                  {duration(loop_delay_ms / 1000)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scrolled>
    </div>
  );
}
