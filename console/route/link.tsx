// A link to a page of the console. It is a real one: it can be copied, and opened in another tab.

import type { ComponentChildren } from "preact";
import { navigate } from "./location.ts";
import { addressOf, type Route } from "./route.ts";

interface LinkProps {
  readonly to: Exclude<Route, { page: "unknown" }>;
  readonly class?: string;
  readonly "aria-current"?: "page" | "step";
  readonly children?: ComponentChildren;
}

export function Link({ to, children, ...rest }: LinkProps) {
  const href = addressOf(to);
  const follow = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(href);
  };
  return (
    <a {...rest} href={href} onClick={follow}>
      {children}
    </a>
  );
}
