// The pages New and Edit: they load what there is to begin with.

import { useMemo } from "preact/hooks";
import type { JsonObject } from "../../../src/connector/request/merge-patch.ts";
import { taggedAnswer } from "../../api/client.ts";
import { useConsole } from "../../console-context.ts";
import { Failure, Notice } from "../../parts/notice.tsx";
import { Link } from "../../route/link.tsx";
import type { EditStep } from "../../route/route.ts";
import { useTitle } from "../../route/use-title.ts";
import { useLoaded } from "../../store/use-loaded.ts";
import { EditForm } from "./edit-form.tsx";
import type { Beginning } from "./form/use-form.ts";
import { blankConnector, cloneOf } from "./model/draft.ts";

interface EditPageProps {
  /** Null: a new connector, with the configuration of the connector `from` to begin with. */
  readonly id: string | null;
  readonly from: string | null;
  readonly step: EditStep;
}

export function EditPage({ id, from, step }: EditPageProps) {
  const { access } = useConsole();
  const title = id === null ? "New connector" : `Edit ${id}`;
  useTitle(title);
  if (access === "Read")
    return (
      <>
        <h1 class="name">{title}</h1>
        <Notice tone="idle" title="You may only read">
          <p>These credentials show everything and change nothing. Somebody with the full ones does this.</p>
          <p>
            <Link to={id === null ? { page: "connectors" } : { page: "connector", id, tab: "configuration" }}>
              {id === null ? "All connectors" : `The configuration of ${id}`}
            </Link>
          </p>
        </Notice>
      </>
    );
  const other = id ?? from;
  return other === null ? (
    <New step={step} />
  ) : (
    <Loading key={other} {...{ other, isNew: id === null, step, title }} />
  );
}

function New({ step }: { readonly step: EditStep }) {
  const beginning = useMemo(
    (): Beginning => ({ draft: blankConnector(), stored: null, tag: null, isNew: true, secretsOf: null }),
    [],
  );
  return <EditForm {...{ beginning, step }} />;
}

interface LoadingProps {
  readonly other: string;
  readonly isNew: boolean;
  readonly step: EditStep;
  readonly title: string;
}

function Loading({ other, isNew, step, title }: LoadingProps) {
  const { api, live } = useConsole();
  const { data, error, reload } = useLoaded(
    () => taggedAnswer(api.connectors({ connector_id: encodeURIComponent(other) }).get()),
    [other],
  );
  const beginning = useMemo((): Beginning | null => {
    if (!data) return null;
    const stored = data.data.connector as unknown as JsonObject;
    const isTaken = (id: string) => id === other || (live.connectors.value?.has(id) ?? false);
    const draft = isNew ? cloneOf(stored, isTaken) : stored;
    return { draft, stored, tag: data.tag, isNew, secretsOf: other };
  }, [data]);
  if (beginning) return <EditForm {...{ beginning, step }} />;
  return (
    <>
      <h1 class="name">{title}</h1>
      {error ? (
        <Failure title={`The configuration of ${other} did not come`} error={error} retry={reload} />
      ) : (
        <p class="soft">Loading…</p>
      )}
    </>
  );
}
