import type { Api } from "../../api/client.ts";
import { Badge } from "../../parts/badge.tsx";
import { Scrolled } from "../../parts/scrolled.tsx";
import { TimeAgo } from "../../parts/time-ago.tsx";
import { plural } from "../../text/numbers.ts";
import { replicaRows } from "./replica-rows.ts";

type Replicas = NonNullable<Awaited<ReturnType<Api["replicas"]["get"]>>["data"]>;

/** The processes that share one state, and how many connectors each runs. */
export function ReplicaTable(list: Replicas) {
  const rows = replicaRows(list);
  const living = rows.filter(({ replica }) => replica.alive);
  return (
    <div class="stack tight">
      <h2 id="replicas">
        {plural(living.length, "replica")}
        {living.length < rows.length && `, ${rows.length - living.length} dead`}
      </h2>
      {living.some(({ isOtherVersion }) => isOtherVersion) && (
        <p class="soft small">
          Replicas of two neighbouring versions work together while one takes the place of the other. Bring
          all to the same version.
        </p>
      )}
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
                Weight
              </th>
              <th scope="col" class="number">
                Connectors
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ replica, isOurs, isOtherVersion }) => (
              <tr key={`${replica.id} ${replica.started_at}`}>
                <th scope="row" class="name">
                  {replica.id}
                  {isOurs && <span class="soft"> (answers you)</span>}{" "}
                  {!replica.alive && <Badge tone="bad">Dead</Badge>}
                </th>
                <td class="name">{replica.host}</td>
                <td>
                  {replica.version} {isOtherVersion && <Badge tone="warning">Another version</Badge>}
                </td>
                <td>
                  <TimeAgo at={replica.started_at} />
                </td>
                <td>
                  <TimeAgo at={replica.seen_at} />
                </td>
                <td class="number">{replica.weight}</td>
                <td class="number">{replica.connectors}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scrolled>
    </div>
  );
}
