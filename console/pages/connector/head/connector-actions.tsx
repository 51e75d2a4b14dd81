import { useEffect, useRef, useState } from "preact/hooks";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import { answer } from "../../../api/client.ts";
import { useConsole } from "../../../console-context.ts";
import { Button } from "../../../parts/button.tsx";
import { Command } from "../../../parts/command.tsx";
import { Confirm } from "../../../parts/confirm.tsx";
import { Menu } from "../../../parts/menu.tsx";
import { Failure } from "../../../parts/notice.tsx";
import { Link } from "../../../route/link.tsx";
import type { ActionCommand, ActionText } from "./action-texts.ts";
import { type Action, actionsFor, isDeletionWaiting } from "./actions.ts";

/** The buttons of a connector. What is large or cannot be undone is asked about first. */
export function ConnectorActions({ entry }: { readonly entry: GivenConnector }) {
  const { api, live } = useConsole();
  const { id } = entry.connector;
  const [asked, setAsked] = useState<Action | null>(null);
  const [isRunning, setRunning] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const run = async (command: ActionCommand) => {
    await answer(api.connector.command({ connector_id: id }).post({ command }));
    await live.refresh(id);
  };
  const choose = async (action: Action) => {
    setError(null);
    if (action.question) return setAsked(action);
    setRunning(true);
    try {
      await run(action.command);
    } catch (failure) {
      setError(failure);
    }
    setRunning(false);
  };
  const actions = actionsFor(entry);
  const group = useFocusKept(actions.map(({ command }) => command).join(), asked !== null);
  const isSeldom = (action: Action) => action.isDangerous && !action.isMain;
  const button = (action: Action) => (
    <Button
      key={action.command}
      kind={action.isMain ? (action.isDangerous ? "danger" : "primary") : "normal"}
      disabled={isRunning}
      onClick={() => choose(action)}
    >
      {action.label}
    </Button>
  );
  const canChange = !isDeletionWaiting(entry.status);
  return (
    <div class="stack tight">
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset would be one of a form. */}
      <div class="row actions" role="group" aria-label="Actions" ref={group}>
        {actions.filter((action) => !isSeldom(action)).map(button)}
        {canChange && (
          <>
            <Link class="button normal" to={{ page: "edit", id }}>
              Edit
            </Link>
            <Menu label="More">
              <Link class="button plain" to={{ page: "new", from: id }}>
                Clone
              </Link>
              {actions.filter(isSeldom).map((action) => (
                <Button key={action.command} kind="danger" onClick={() => choose(action)}>
                  {action.label}
                </Button>
              ))}
            </Menu>
          </>
        )}
      </div>
      {error !== null && <Failure title="That did not work" error={error} />}
      {asked?.question && (
        <ActionQuestion
          action={asked}
          question={asked.question}
          run={() => run(asked.command)}
          onClose={() => setAsked(null)}
        />
      )}
    </div>
  );
}

interface ActionQuestionProps {
  readonly action: Action;
  readonly question: ActionText;
  readonly run: () => Promise<void>;
  readonly onClose: () => void;
}

function ActionQuestion({ action, question, run, onClose }: ActionQuestionProps) {
  const { title, paragraphs, commands } = question;
  return (
    <Confirm {...{ title, action: action.label, isDangerous: action.isDangerous, run, onClose }}>
      {paragraphs.map((paragraph) => (
        <p key={paragraph}>{paragraph}</p>
      ))}
      {commands.length > 0 && <Command text={commands.join("\n")} what="SQL" />}
    </Confirm>
  );
}

/** Another state has other buttons. Whoever had the focus on one that is gone goes on at the first one. */
function useFocusKept(buttons: string, isAsking: boolean) {
  const group = useRef<HTMLDivElement>(null);
  const hadFocus = useRef(false);
  useEffect(() => {
    const remember = () => {
      const { activeElement } = document;
      // A question of ours gives the focus back.
      if (activeElement !== document.body && !activeElement?.closest("dialog"))
        hadFocus.current = group.current?.contains(activeElement) === true;
    };
    document.addEventListener("focusin", remember);
    return () => document.removeEventListener("focusin", remember);
  }, []);
  useEffect(() => {
    if (!isAsking && hadFocus.current && document.activeElement === document.body)
      group.current?.querySelector("button")?.focus();
  }, [buttons, isAsking]);
  return group;
}
