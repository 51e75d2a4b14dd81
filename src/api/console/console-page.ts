// The console's page: one for all its paths, as the script in it shows what the path names. It holds nothing secret, and
// so it is open to a browser, which cannot send a token when it navigates.

export const consolePage = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>millrace</title>
    <link rel="icon" type="image/svg+xml" href="/console/assets/icon.svg">
    <link rel="stylesheet" href="/console/assets/app.css">
  </head>
  <body>
    <div id="console"></div>
    <noscript>The console of millrace needs JavaScript. The API works without it: <a href="/swagger">/swagger</a> describes it.</noscript>
    <script type="module" src="/console/assets/app.js"></script>
  </body>
</html>
`;

/** The browser loads nothing that is not ours, and runs nothing that is written into the page. */
const contentSecurityPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Of the page and of its assets. */
export const securityHeaders: Readonly<Record<string, string>> = {
  "content-security-policy": contentSecurityPolicy,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};
