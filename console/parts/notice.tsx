import type { ComponentChildren } from "preact";
import { ApiProblem, messageOf } from "../api/problem.ts";
import type { Tone } from "../connector/condition.ts";
import { Button } from "./button.tsx";

interface NoticeProps {
  readonly tone: Tone;
  readonly title?: string;
  /** `alert` interrupts those who hear the page: for what the reader has just caused. */
  readonly role?: "alert" | "status";
  readonly children?: ComponentChildren;
}

export function Notice({ tone, title, role, children }: NoticeProps) {
  return (
    <div class={`notice tone-${tone}`} {...(role && { role })}>
      {title && <p class="notice-title">{title}</p>}
      {children}
    </div>
  );
}

interface FailureProps {
  readonly title: string;
  readonly error: unknown;
  readonly retry?: () => void;
  readonly dismiss?: () => void;
}

/** Something failed that the reader asked for, with every violation that the API names. */
export function Failure({ title, error, retry, dismiss }: FailureProps) {
  const fields = error instanceof ApiProblem ? error.fields : [];
  return (
    <Notice tone="bad" title={title} role="alert">
      <p>{messageOf(error)}</p>
      {fields.length > 0 && (
        <ul class="stack tight">
          {fields.map(({ path, message }) => (
            <li key={path + message}>
              {path && <code>{path}</code>} {message}
            </li>
          ))}
        </ul>
      )}
      {retry && (
        <div>
          <Button size="small" onClick={retry}>
            Try again
          </Button>
        </div>
      )}
      {dismiss && (
        <div>
          <Button size="small" onClick={dismiss}>
            Dismiss
          </Button>
        </div>
      )}
    </Notice>
  );
}

/** Stands where others find buttons. */
export function ReadOnlyNote() {
  return <p class="small soft">You may only read: changes need the full credentials.</p>;
}
