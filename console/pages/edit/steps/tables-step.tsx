// Which tables and columns are carried.

import { useEffect } from "preact/hooks";
import type { CatalogRequest } from "../../../../src/connector/config/catalog.ts";
import type { JsonObject } from "../../../../src/connector/request/merge-patch.ts";
import { ApiProblem } from "../../../api/problem.ts";
import { Progress } from "../../../charts/progress.tsx";
import { Button } from "../../../parts/button.tsx";
import { Failure, Notice } from "../../../parts/notice.tsx";
import { CatalogTree } from "../catalog/catalog-tree.tsx";
import { hashesSomething, type KnownTables, withNewTables } from "../catalog/selection.ts";
import { saltField } from "../fields/all-fields.ts";
import { type Form, useForm } from "../form/form-context.ts";
import { Fields } from "../form/groups.tsx";
import { valueAt } from "../model/pointer.ts";
import { StepFooter, type StepProps } from "./step-footer.tsx";
import type { StepData } from "./use-step-data.ts";

const place = "/source/postgres/catalog";

export function TablesStep({ go, next, data }: StepProps & { readonly data: StepData }) {
  const { isRunning, data: known, error, of } = data.catalog;
  const isOld = of !== data.keyOf("catalog");
  // What went wrong is shown below.
  const load = () => data.loadCatalog().catch(() => {});
  useEffect(() => {
    // Also while an earlier connection's are on their way: they are not waited for then.
    if (isOld) void load();
  }, []);
  return (
    <>
      {isRunning && (
        <section class="card stack">
          <Progress label="Tables of the source" done={0} all={0} note="Asking the source for its tables…" />
        </section>
      )}
      {!isRunning && Boolean(error) && <NoCatalog {...{ error, load, go }} />}
      {!isRunning && known !== null && <Tables {...{ known, reload: load }} />}
      <StepFooter
        next={{ label: "Next: review", go: () => next("tables", "review") }}
        back={{ label: "Back", go: () => go("sink") }}
      />
    </>
  );
}

interface NoCatalogProps extends Pick<StepProps, "go"> {
  readonly error: unknown;
  readonly load: () => void;
}

function NoCatalog({ error, load, go }: NoCatalogProps) {
  const isIncomplete = error instanceof ApiProblem && error.status === 422;
  if (!isIncomplete)
    return (
      <>
        <Failure title="The source does not show its tables" error={error} retry={load} />
        <p class="soft">You can go on all the same: without a choice, every table is carried.</p>
      </>
    );
  return (
    <Notice tone="warning" title="The source is not complete yet">
      <p>Its tables are listed here once millrace can log in.</p>
      <div>
        <Button size="small" onClick={() => go("source")}>
          Go to the source
        </Button>
      </div>
    </Notice>
  );
}

function Tables({ known, reload }: { readonly known: KnownTables; readonly reload: () => void }) {
  const form = useForm();
  const catalog = catalogOf(form);
  const put = (next: CatalogRequest) => form.set(place, emptied(next, form));
  const takesNew = catalog.default_action !== "Exclude";
  return (
    <>
      <fieldset class="kinds">
        <legend>Tables that are created later</legend>
        <NewTables
          {...{ isChosen: takesNew, title: "Carry them too" }}
          text="Everything is carried but what you untick."
          choose={() => put(withNewTables(catalog, known, "Include"))}
        />
        <NewTables
          {...{ isChosen: !takesNew, title: "Leave them out" }}
          text="Only what is ticked is carried."
          choose={() => put(withNewTables(catalog, known, "Exclude"))}
        />
      </fieldset>
      <CatalogTree {...{ known, catalog, put, reload }} />
      {hashesSomething(catalog) && (
        <section class="card stack">
          <h3>Hashed columns</h3>
          <p class="soft small">
            They hold the hex SHA-256 of the salt and the value. At the sink they are text.
          </p>
          <Fields fields={[saltField]} />
          <div>
            <Button size="small" onClick={() => form.set(saltField.path, randomSalt())}>
              Make a salt
            </Button>
          </div>
        </section>
      )}
    </>
  );
}

interface NewTablesProps {
  readonly isChosen: boolean;
  readonly title: string;
  readonly text: string;
  readonly choose: () => void;
}

function NewTables({ isChosen, title, text, choose }: NewTablesProps) {
  return (
    <label class="kind">
      <input type="radio" name={`${place}/default_action`} checked={isChosen} onChange={choose} />
      <span>
        <strong>{title}</strong>
        <span class="small soft">{text}</span>
      </span>
    </label>
  );
}

function catalogOf({ draft }: Form): CatalogRequest {
  return (valueAt(draft, place) ?? {}) as CatalogRequest;
}

/** A catalog that says nothing is left out, unless it was there before. */
function emptied(catalog: CatalogRequest, { stored }: Form): JsonObject | undefined {
  const saysNothing = Object.keys(catalog).every(
    (key) => key === "default_action" && catalog.default_action === "Include",
  );
  const before = valueAt(stored ?? {}, place);
  if (saysNothing && before === undefined) return undefined;
  return catalog as unknown as JsonObject;
}

function randomSalt(): string {
  return [...crypto.getRandomValues(new Uint8Array(24))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}
