// The two URLs that need no credentials and accept any host name: monitoring has no credentials, and may use any name.

/**
 * Matches the whole URL, so that the router cannot read another path in it: a URL like
 * `http://x/healthz?/api/v1/connectors` does not match.
 */
const openUrl = /^(?:https?:\/\/[^/?#\\]*)?\/(?:healthz|readyz)$/;

export function isOpenUrl(url: string): boolean {
  return openUrl.test(url);
}
