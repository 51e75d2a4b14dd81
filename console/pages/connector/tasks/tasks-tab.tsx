import { useState } from "preact/hooks";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import { useConsole } from "../../../console-context.ts";
import { Button } from "../../../parts/button.tsx";
import { Failure } from "../../../parts/notice.tsx";
import { SnapshotDialog } from "./snapshot-dialog.tsx";
import { TaskItem } from "./task-item.tsx";
import { useTasks } from "./use-tasks.ts";

/** As many as the service lists. */
const most = 100;

export function TasksTab({ entry }: { readonly entry: GivenConnector }) {
  const { access } = useConsole();
  const { data: tasks, error, reload, show } = useTasks(entry.connector.id);
  const [isAsking, setAsking] = useState(false);
  const canAct = access === "Full";
  return (
    <section class="stack" aria-labelledby="tasks-title">
      <div class="row apart">
        <div>
          <h2 id="tasks-title">Tasks</h2>
          <p class="small soft">A task copies one table again, beside the stream.</p>
        </div>
        {canAct && <Button onClick={() => setAsking(true)}>Copy a table</Button>}
      </div>
      {error !== null && !tasks && <Failure title="The tasks cannot be shown" error={error} retry={reload} />}
      {!tasks && error === null && <p class="soft">Loading…</p>}
      {tasks?.length === 0 && <p class="soft">No task yet.</p>}
      {tasks && tasks.length > 0 && (
        <ul class="tasks">
          {tasks.map((task) => (
            <TaskItem key={task.id} {...{ entry, task, canAct, show }} />
          ))}
        </ul>
      )}
      {tasks && tasks.length >= most && <p class="small soft">These are the latest {most}.</p>}
      {isAsking && (
        <SnapshotDialog {...{ entry, table: null, onCreated: show, onClose: () => setAsking(false) }} />
      )}
    </section>
  );
}
