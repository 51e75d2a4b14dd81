import { useTitle } from "../../route/use-title.ts";

/** `id` null: a new connector, with the configuration of the connector `from` to begin with. */
export function EditPage({ id, from }: { readonly id: string | null; readonly from: string | null }) {
  useTitle(id ?? "New connector");
  return <h1>{id ?? from ?? "New connector"}</h1>;
}
