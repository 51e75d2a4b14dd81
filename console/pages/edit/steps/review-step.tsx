// What will be created, or changed; then it is.

import { useEffect, useState } from "preact/hooks";
import type { JsonObject } from "../../../../src/connector/request/merge-patch.ts";
import { storedCredentials } from "../../../api/credentials.ts";
import { useConsole } from "../../../console-context.ts";
import { Button } from "../../../parts/button.tsx";
import { Command } from "../../../parts/command.tsx";
import { Notice } from "../../../parts/notice.tsx";
import type { KnownTables } from "../catalog/selection.ts";
import { nameFields } from "../fields/all-fields.ts";
import { type Form, useForm } from "../form/form-context.ts";
import { Fields } from "../form/groups.tsx";
import type { Change } from "../model/change.ts";
import { changesOf } from "../model/changes.ts";
import { curlOf } from "../model/curl.ts";
import { freeId } from "../model/draft.ts";
import { mergePatchOf } from "../model/patch.ts";
import { valueAt } from "../model/pointer.ts";
import { withoutSecrets, withPlaceholders } from "../model/secrets.ts";
import { conditionOf, saveConnector } from "./save-connector.ts";
import type { StepProps } from "./step-footer.tsx";
import { Summary } from "./summary.tsx";
import type { StepData } from "./use-step-data.ts";

interface ReviewStepProps extends StepProps {
  readonly data: StepData;
  readonly saved: (id: string) => void;
}

export function ReviewStep({ go, refuse, data, saved }: ReviewStepProps) {
  const form = useForm();
  const { api, live } = useConsole();
  const [isBusy, setBusy] = useState(false);
  const [theirs, setTheirs] = useState<readonly Change[] | null>(null);
  useSuggestedId(form);
  const patch = form.stored && !form.isNew ? mergePatchOf(form.stored, form.draft) : null;
  const isUnchanged = patch !== null && Object.keys(patch).length === 0;
  const save = async () => {
    setBusy(true);
    try {
      const outcome = await saveConnector(api, form);
      if (typeof outcome !== "string") {
        setTheirs(changesOf(form.stored ?? {}, outcome.now, data.catalog.data));
        form.rebase(outcome.now, outcome.tag);
        return setBusy(false);
      }
      await live.refresh(outcome);
      saved(outcome);
    } catch (error) {
      refuse(error);
      setBusy(false);
    }
  };
  const takeTheirs = () => {
    if (form.stored) form.setDraft(form.stored);
    setTheirs(null);
  };
  return (
    <>
      <section class="card stack">
        <Summary {...{ draft: form.draft, defaults: form.defaults, known: data.catalog.data }} />
        <Fields fields={nameFields} />
      </section>
      {theirs && <Theirs changes={theirs} takeTheirs={isUnchanged ? null : takeTheirs} />}
      {patch !== null && <Changes {...{ form, isUnchanged, known: data.catalog.data }} />}
      <Shown {...{ form, patch }} />
      <div class="row step-footer">
        <Button kind="primary" disabled={isBusy || isUnchanged} onClick={save}>
          {form.isNew ? "Create the connector" : "Save the changes"}
        </Button>
        <Button kind="plain" onClick={() => go("tables")}>
          Back
        </Button>
        {isBusy && (
          <span class="soft" role="status">
            Saving…
          </span>
        )}
      </div>
    </>
  );
}

/** The database's name will do for most. */
function useSuggestedId(form: Form) {
  const { live } = useConsole();
  useEffect(() => {
    if (!form.isNew || form.draft.id !== "") return;
    const database = String(valueAt(form.draft, "/source/postgres/connection/database") ?? "");
    const id = freeId(database, (taken) => live.connectors.value?.has(taken) ?? false);
    if (id !== "") form.set("/id", id);
  }, []);
}

interface ChangesProps {
  readonly form: Form;
  readonly isUnchanged: boolean;
  readonly known: KnownTables | null;
}

function Changes({ form, isUnchanged, known }: ChangesProps) {
  if (isUnchanged) return <Notice tone="idle">Nothing is changed yet.</Notice>;
  return (
    <section class="card stack">
      <h3>What changes</h3>
      <ChangeList changes={changesOf(form.stored ?? {}, form.draft, known)} />
      <p class="small soft">A connector that runs goes on with the new configuration.</p>
    </section>
  );
}

interface TheirsProps {
  readonly changes: readonly Change[];
  /** Null: there is nothing of one's own. */
  readonly takeTheirs: (() => void) | null;
}

/** What is saved goes on top of it: nobody's change is lost unseen. */
function Theirs({ changes, takeTheirs }: TheirsProps) {
  return (
    <Notice tone="warning" title="Somebody else has changed this connector meanwhile" role="alert">
      <ChangeList changes={changes} />
      {takeTheirs ? (
        <>
          <p>
            Their change holds, and yours is not saved yet. Look below at what it changes now, then save once
            more. Or take what they have, and begin anew.
          </p>
          <div>
            <Button size="small" onClick={takeTheirs}>
              Load theirs, drop mine
            </Button>
          </div>
        </>
      ) : (
        <p>Their change holds, and nothing of yours is left to save.</p>
      )}
    </Notice>
  );
}

function ChangeList({ changes }: { readonly changes: readonly Change[] }) {
  return (
    <ul class="changes">
      {changes.map(({ path, before, after }) => (
        <li key={path}>
          <code class="name">{path}</code>
          <span class="name">
            <span class="soft">{before ?? "nothing"}</span>
            <span aria-hidden="true"> → </span>
            <span class="only-spoken"> becomes </span>
            {after ?? "nothing"}
          </span>
        </li>
      ))}
    </ul>
  );
}

function Shown({ form, patch }: { readonly form: Form; readonly patch: JsonObject | null }) {
  const body = patch ?? form.draft;
  const shown = form.isNew ? form.stored : null;
  const id = encodeURIComponent(String(form.draft.id || "id"));
  const clone =
    form.isNew && form.secretsOf !== null ? `?clone_from=${encodeURIComponent(form.secretsOf)}` : "";
  const curl = curlOf({
    method: patch ? "PATCH" : "POST",
    url: `${location.origin}/api/v1/connectors/${id}${clone}`,
    body: withPlaceholders(body, shown),
    signIn: signIn(),
    headers: conditionOf(form),
  });
  return (
    <section class="card groups" aria-label="For the command line">
      <details class="group">
        <summary>
          <span class="group-title">{patch ? "The patch as JSON" : "As JSON"}</span>
          <span class="soft small">Secrets read ***</span>
        </summary>
        <Command text={JSON.stringify(withoutSecrets(body, shown), null, 2)} what="JSON" />
      </details>
      <details class="group">
        <summary>
          <span class="group-title">As a curl command</span>
          <span class="soft small">Put the secrets in where it says &lt;…&gt;</span>
        </summary>
        <Command text={curl} what="command" />
      </details>
    </section>
  );
}

function signIn(): "none" | "basic" | "bearer" {
  const credentials = storedCredentials();
  if (credentials === null) return "none";
  return credentials.startsWith("Basic ") ? "basic" : "bearer";
}
