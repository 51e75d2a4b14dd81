import { useState } from "preact/hooks";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import type { Task } from "../../../../src/connector/task.ts";
import { answer } from "../../../api/client.ts";
import { Progress } from "../../../charts/progress.tsx";
import { tableCopyProgress } from "../../../connector/copy-progress.ts";
import { Reason } from "../../../connector/reason.tsx";
import { TableName } from "../../../connector/table-name.tsx";
import { useConsole } from "../../../console-context.ts";
import { Badge } from "../../../parts/badge.tsx";
import { Button } from "../../../parts/button.tsx";
import { useNow } from "../../../parts/clock.ts";
import { Failure } from "../../../parts/notice.tsx";
import { TimeAgo } from "../../../parts/time-ago.tsx";
import { bytes, shortCount } from "../../../text/numbers.ts";
import { Found } from "./found.tsx";
import { MissingKeys } from "./missing-keys.tsx";
import { resultsOf } from "./results-of.ts";
import {
  comparisonText,
  foundText,
  isEqual,
  replayText,
  sentText,
  type TaskAction,
  taskActions,
  taskNote,
  taskNoun,
  taskTone,
} from "./task-words.ts";

interface TaskItemProps {
  readonly entry: GivenConnector;
  readonly task: Task;
  readonly canAct: boolean;
  readonly show: (task: Task) => void;
}

export function TaskItem({ entry, task, canAct, show }: TaskItemProps) {
  const { Snapshot: copy, Verify: comparison, Replay: replay } = task.spec;
  const spec = copy ?? comparison ?? replay;
  const { found, sent } = resultsOf(task);
  const table = spec ? `${spec.schema}.${spec.name}` : task.id;
  const note = taskNote(task, entry.status, useNow());
  const isFailing = task.state === "Failed" || task.state === "Pending";
  return (
    <li class="task">
      <div class="task-head">
        <Badge tone={taskTone(task)}>{task.state}</Badge>
        <h3>{spec ? <TableName schema={spec.schema} name={spec.name} /> : task.id}</h3>
        <span class="small soft made">
          <TimeAgo at={task.created_at} />
        </span>
      </div>
      <div class="row small soft">
        {copy?.truncate && <span>removes rows that the source lacks</span>}
        {copy?.force_parallel && <span>in several chunks</span>}
        {comparison && <span>{comparisonText(comparison)}</span>}
        {replay && <span>{replayText(replay)}</span>}
        {note && <span>{note}</span>}
        {task.progress && task.progress.rows > 0 && task.state !== "Running" && (
          <span>{progressText(task)}</span>
        )}
        {found && <span class={isEqual(found) ? "" : "wrong"}>{foundText(found)}</span>}
        {sent && <span>{sentText(sent)}</span>}
      </div>
      {task.state === "Running" && <TaskProgress table={table} task={task} />}
      {task.reason && <Reason text={task.reason} class={`small ${isFailing ? "wrong" : "soft"}`} />}
      {found && <Found result={found} />}
      {sent && sent.missing.length > 0 && <MissingKeys keys={sent.missing} />}
      {canAct && <TaskButtons {...{ id: entry.connector.id, task, table, show }} />}
    </li>
  );
}

function TaskProgress({ table, task }: { readonly table: string; readonly task: Task }) {
  const { progress } = task;
  const { done, all } = tableCopyProgress(progress ?? { rows: 0, estimated_rows: 0 });
  const note = progress ? progressText(task) : "it begins";
  return <Progress {...{ label: `${taskNoun(task)} of ${table}`, done, all, note }} />;
}

function progressText({ spec, progress }: Task): string {
  const rows = `${shortCount(progress?.rows ?? 0)} rows`;
  return spec.Verify ? rows : `${rows}, ${bytes(progress?.bytes ?? 0)}`;
}

interface TaskButtonsProps {
  readonly id: string;
  readonly task: Task;
  readonly table: string;
  readonly show: (task: Task) => void;
}

function TaskButtons({ id, task, table, show }: TaskButtonsProps) {
  const { api } = useConsole();
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const actions = taskActions(task);
  const run = async ({ action }: TaskAction) => {
    setBusy(true);
    setError(null);
    const path = api.connectors({ connector_id: id }).tasks({ task_id: task.id });
    try {
      show(await answer(action === "cancel" ? path.cancel.post() : path.retry.post()));
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  return (
    <>
      {actions.length > 0 && (
        <div class="row">
          {actions.map((action) => (
            <Button
              key={action.action}
              {...{ size: "small", disabled: isBusy, onClick: () => run(action) }}
              aria-label={`${action.label}: ${taskNoun(task).toLowerCase()} of ${table}`}
            >
              {action.label}
            </Button>
          ))}
        </div>
      )}
      {error !== null && <Failure title="That did not work" error={error} />}
    </>
  );
}
