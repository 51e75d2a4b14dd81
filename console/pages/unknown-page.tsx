import { Link } from "../route/link.tsx";
import { useTitle } from "../route/use-title.ts";

export function UnknownPage() {
  useTitle("Not found");
  return (
    <div class="empty">
      <h1>There is no such page</h1>
      <p>The address may be mistyped, or what it named has been deleted.</p>
      <Link class="button" to={{ page: "connectors" }}>
        All connectors
      </Link>
    </div>
  );
}
