import { CopyButton } from "./copy-button.tsx";

/** SQL or a shell command, to be copied. */
export function Command({ text, what = "command" }: { readonly text: string; readonly what?: string }) {
  return (
    <div class="command">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard. */}
      <pre tabIndex={0}>{text}</pre>
      <CopyButton text={text} what={what} />
    </div>
  );
}

/** SQL statements as one text, each with its semicolon. */
export function SqlCommands({ statements }: { readonly statements: readonly string[] }) {
  if (statements.length === 0) return null;
  const text = statements.map((sql) => (/;\s*$/.test(sql) ? sql : `${sql};`)).join("\n");
  return <Command text={text} what="SQL" />;
}
