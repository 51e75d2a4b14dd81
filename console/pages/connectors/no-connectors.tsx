import { Command } from "../../parts/command.tsx";
import { Link } from "../../route/link.tsx";

/** What to do first. */
export function NoConnectors({ canCreate }: { readonly canCreate: boolean }) {
  return (
    <div class="empty card">
      <h1>No connector yet</h1>
      <p>
        A connector carries every change of a Postgres database to another Postgres, to an HTTP endpoint or to
        Kafka. It copies the tables first, then follows the changes.
      </p>
      {canCreate ? (
        <Link class="button primary" to={{ page: "new", from: null }}>
          Create the first connector
        </Link>
      ) : (
        <p class="soft">You may read only: somebody with the full credentials creates it.</p>
      )}
      <div class="stack tight">
        <h2>Or look at it first</h2>
        <p>This starts two Postgres servers of its own, a connector between them, and some load to watch:</p>
        <Command text="millrace demo" />
      </div>
    </div>
  );
}
