import { useTitle } from "../../route/use-title.ts";

export function ServicePage() {
  useTitle("Service");
  return <h1>Service</h1>;
}
