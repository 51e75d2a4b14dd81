import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { GivenConnector } from "../../../../src/connector/connector.ts";
import { Command } from "../../../parts/command.tsx";
import { CopyButton } from "../../../parts/copy-button.tsx";
import { DownloadButton } from "../../../parts/download-button.tsx";
import { configFile, connectorJson } from "./config-file.ts";

/** What the connector is, to read, to keep and to take elsewhere. */
export function ConfigurationTab({ entry: { connector } }: { readonly entry: GivenConnector }) {
  const json = useMemo(() => connectorJson(connector), [connector]);
  const { text, variables } = useMemo(() => configFile(connector), [connector]);
  return (
    <>
      <Document title="As the API shows it" text={json} fileName={`${connector.id}.json`}>
        <p class="small soft">
          As it was given, with the defaults of what was given. Secrets read <code>***</code>; sent back, that
          keeps them.
        </p>
      </Document>
      <Document title="As a file" text={text} fileName={`${connector.id}.config.json`}>
        <p class="small soft">
          For <code>millrace serve --config</code> and <code>millrace connectors apply -f</code>.
          {variables.length > 0 &&
            " The file holds no secret: these variables of the environment stand for them."}
        </p>
        {variables.length > 0 && (
          <Command text={variables.map((name) => `export ${name}='…'`).join("\n")} what="variables" />
        )}
      </Document>
    </>
  );
}

interface DocumentProps {
  readonly title: string;
  readonly text: string;
  readonly fileName: string;
  readonly children: ComponentChildren;
}

function Document({ title, text, fileName, children }: DocumentProps) {
  return (
    <section class="stack tight" aria-label={title}>
      <div class="row apart">
        <h2>{title}</h2>
        <div class="row">
          <CopyButton text={text} what="file" />
          <DownloadButton text={text} name={fileName} what={fileName} />
        </div>
      </div>
      {children}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard. */}
      <pre class="document card" tabIndex={0}>
        {text}
      </pre>
    </section>
  );
}
