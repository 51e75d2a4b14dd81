import { useState } from "preact/hooks";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import type { Parked } from "../../../../src/connector/parked-message.ts";
import { answer } from "../../../api/client.ts";
import { TableName } from "../../../connector/table-name.tsx";
import { useConsole } from "../../../console-context.ts";
import { Button } from "../../../parts/button.tsx";
import { Confirm } from "../../../parts/confirm.tsx";
import { Failure, ReadOnlyNote } from "../../../parts/notice.tsx";
import { useLoaded } from "../../../store/use-loaded.ts";
import { plural } from "../../../text/numbers.ts";
import { exact } from "../../../text/times.ts";
import { keyWords, ParkedItem } from "./parked-item.tsx";

const pageSize = 50;
const everyMs = 3_000;

/** Of one message, or of all that its reader could know of. */
type Wish = { readonly what: "retry" | "discard" } & (
  | { readonly message: Parked }
  | { readonly message: null; readonly total: number; readonly before: string }
);

/** What was refused, a page at a time, and what can be done with it. */
export function ParkedTab({ entry }: { readonly entry: GivenConnector }) {
  const { api, access } = useConsole();
  const { id } = entry.connector;
  /** Where the pages before this one, and this one, begin. */
  const [places, setPlaces] = useState<readonly (string | undefined)[]>([undefined]);
  const [wish, setWish] = useState<Wish | null>(null);
  const after = places.at(-1);
  const path = api.connectors({ connector_id: id }).parked;
  const load = () => answer(path.get({ query: { limit: String(pageSize), ...(after && { after }) } }));
  const { data, error, reload } = useLoaded(load, [id, after], everyMs);
  const canAct = access === "Full";
  const hasAny = data !== null && data.parked.length > 0;
  const askForAll = (what: Wish["what"]) =>
    data && setWish({ what, message: null, total: data.total, before: data.as_of });
  return (
    <section class="stack" aria-labelledby="parked-title">
      <div class="row apart">
        <div>
          <h2 id="parked-title">Parked</h2>
          <p class="small soft">What was refused, and what waits behind it. The rest goes on.</p>
        </div>
        {!canAct && <ReadOnlyNote />}
        {canAct && hasAny && (
          <div class="row">
            <Button onClick={() => askForAll("retry")}>Send all again</Button>
            <Button kind="danger" onClick={() => askForAll("discard")}>
              Discard all
            </Button>
          </div>
        )}
      </div>
      {error !== null && !data && (
        <Failure title="What is parked cannot be shown" error={error} retry={reload} />
      )}
      {!data && error === null && <p class="soft">Loading…</p>}
      {data?.parked.length === 0 && <p class="soft">Nothing is parked{after ? " here" : ""}.</p>}
      {data && hasAny && (
        <ul class="tasks">
          {data.parked.map((message) => (
            <ParkedItem
              key={message.id}
              {...{ id, message, canAct, ask: (what: Wish["what"]) => setWish({ what, message }) }}
            />
          ))}
        </ul>
      )}
      <div class="row">
        {places.length > 1 && <Button onClick={() => setPlaces(places.slice(0, -1))}>Earlier</Button>}
        {data?.next && <Button onClick={() => setPlaces([...places, data.next ?? undefined])}>Later</Button>}
      </div>
      {wish && <ParkedDialog {...{ entry, wish, onDone: reload, onClose: () => setWish(null) }} />}
    </section>
  );
}

interface ParkedDialogProps {
  readonly entry: GivenConnector;
  readonly wish: Wish;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function ParkedDialog({ entry, wish, onDone, onClose }: ParkedDialogProps) {
  const { what, message } = wish;
  const { api } = useConsole();
  const { connector, status } = entry;
  const run = async () => {
    const all = api.connectors({ connector_id: connector.id }).parked;
    if (wish.message === null) {
      const { before } = wish;
      await answer(what === "retry" ? all.retry.post({ before }) : all.discard.post({ before }));
    } else {
      const one = all({ parked_id: wish.message.id });
      await answer(what === "retry" ? one.retry.post() : one.discard.post());
    }
    onDone();
  };
  const object = wish.message ? "this message" : plural(wish.total, "message");
  const isIdle = status.state.shutdown || status.state.disabled || status.status.failed;
  const named = wish.message ? (
    <p>
      <TableName schema={wish.message.schema} name={wish.message.table} />{" "}
      <code>{keyWords(wish.message)}</code>
    </p>
  ) : (
    <p>
      All of {connector.id}, of every table, that was parked before {exact(Date.parse(wish.before))}, also
      what is about to be sent again. What is parked later stays.
    </p>
  );
  if (what === "discard")
    return (
      <Confirm {...{ title: `Discard ${object}`, action: "Discard", isDangerous: true, run, onClose }}>
        {named}
        <p>
          {message ? "Its rows are" : "The rows are"} never sent, and cannot be brought back from here. Who
          asked for it, and when, is kept for 7 days at least.
        </p>
        {message && <p class="small soft">What waits behind it is sent.</p>}
      </Confirm>
    );
  return (
    <Confirm {...{ title: `Send ${object} again`, action: "Send again", run, onClose }}>
      {named}
      <p>The rows of each key go in their order. What is refused again stays, with all behind it.</p>
      {isIdle && <p class="small strong">The connector does not run now: it happens when it does.</p>}
    </Confirm>
  );
}
