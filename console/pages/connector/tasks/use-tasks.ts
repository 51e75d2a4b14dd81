import { useEffect, useRef, useState } from "preact/hooks";
import type { Task } from "../../../../src/connector/task.ts";
import { answer } from "../../../api/client.ts";
import { useConsole } from "../../../console-context.ts";
import { useStore } from "../../../store/store.ts";
import { type Loaded, useLoaded } from "../../../store/use-loaded.ts";
import { withTask } from "./task-words.ts";

const pollMs = 3_000;
/** While events come, which may still be lost on their way. */
const refreshMs = 30_000;

interface Tasks extends Loaded<readonly Task[]> {
  /** A task as an action has left it. */
  readonly show: (task: Task) => void;
}

/** The tasks of a connector: by events, and by asking again and again where none come. */
export function useTasks(id: string): Tasks {
  const { api, live } = useConsole();
  const isLive = useStore(live.link, (link) => link === "live");
  const [tasks, setTasks] = useState<readonly Task[] | null>(null);
  // What came while the list was on its way is newer than it, or says the same.
  const missed = useRef<Task[]>([]);
  const show = (task: Task) => {
    missed.current.push(task);
    setTasks((known) => known && withTask(known, task));
  };
  const load = async () => {
    missed.current = [];
    const list = await answer(api.connectors({ connector_id: id }).tasks.get());
    const all = missed.current.reduce<readonly Task[]>(withTask, list);
    setTasks(all);
    return all;
  };
  const loaded = useLoaded(load, [id], isLive ? refreshMs : pollMs);
  useEffect(
    () =>
      live.task.subscribe(() => {
        const event = live.task.value;
        if (event?.connector_id === id) show(event.task);
      }),
    [live, id],
  );
  return { ...loaded, data: tasks, show };
}
