import type { Api } from "../../api/client.ts";
import { Scrolled } from "../../parts/scrolled.tsx";
import { TimeAgo } from "../../parts/time-ago.tsx";
import { plural } from "../../text/numbers.ts";

type Replicas = NonNullable<Awaited<ReturnType<Api["replicas"]["get"]>>["data"]>;

/** The processes that share one state, and how many connectors each runs. */
export function ReplicaTable({ replicas, this: ours }: Replicas) {
  return (
    <div class="stack tight">
      <h2 id="replicas">{plural(replicas.length, "replica")}</h2>
      <Scrolled labelledBy="replicas">
        <table>
          <thead>
            <tr>
              <th scope="col">Replica</th>
              <th scope="col">Host</th>
              <th scope="col">Version</th>
              <th scope="col">Started</th>
              <th scope="col">Seen</th>
              <th scope="col" class="number">
                Connectors
              </th>
            </tr>
          </thead>
          <tbody>
            {replicas.map(({ id, host, version, started_at, seen_at, connectors }) => (
              <tr key={id}>
                <th scope="row" class="name">
                  {id}
                  {id === ours && <span class="soft"> (answers you)</span>}
                </th>
                <td class="name">{host}</td>
                <td>{version}</td>
                <td>
                  <TimeAgo at={started_at} />
                </td>
                <td>
                  <TimeAgo at={seen_at} />
                </td>
                <td class="number">{connectors}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scrolled>
    </div>
  );
}
