// Makes a page of a document that is written in Markdown. Pure.

/** Of all documents. */
export const documentsPath = "/docs";

export interface DocumentLink {
  /** Without `.md`. */
  readonly name: string;
  readonly title: string;
}

/** The first heading; without one, the name. */
export function documentTitle(name: string, markdown: string): string {
  return /^# (.+)$/m.exec(markdown)?.[1] ?? name;
}

export function documentPage(title: string, markdown: string, all: readonly DocumentLink[]): string {
  return page(title, withOwnLinks(Bun.markdown.html(markdown, { headings: { ids: true } })), all);
}

/** What there is. */
export function documentIndex(all: readonly DocumentLink[]): string {
  return page("Documentation", "<h1>Documentation</h1><p>Of this version of millrace.</p>", all);
}

function page(title: string, body: string, all: readonly DocumentLink[]): string {
  const links = all.map(
    (each) => `<li><a href="${documentsPath}/${each.name}">${Bun.escapeHTML(each.title)}</a></li>`,
  );
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>${Bun.escapeHTML(title)} · millrace</title>
    <link rel="icon" type="image/svg+xml" href="/console/assets/icon.svg">
    <link rel="stylesheet" href="${documentsPath}/style.css">
  </head>
  <body>
    <nav aria-label="Documents"><a href="/">Console</a> <a href="/swagger">API</a><ul>${links.join("")}</ul></nav>
    <main>${body}</main>
  </body>
</html>
`;
}

/**
 * Links between documents lead to their pages. What else lies in the project's folder is not here: of such a link the text stays.
 */
function withOwnLinks(html: string): string {
  return html
    .replace(/<a href="([^"]*)"([^>]*)>(.*?)<\/a>/gs, (link, address: string, rest: string, text: string) => {
      if (/^(?:https?:|#)/.test(address)) return link;
      const document = /^([\w-]+)\.md(#[\w-]*)?$/.exec(address);
      return document
        ? `<a href="${documentsPath}/${document[1]}${document[2] ?? ""}"${rest}>${text}</a>`
        : text;
    })
    .replace(/<img src="([\w.-]+)"/g, `<img src="${documentsPath}/$1"`);
}
