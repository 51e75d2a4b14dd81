// The two URLs that are open always: what watches over the service has no credentials, and may know it by any name.

/**
 * The whole URL is matched, and nothing in it can be read as another path by the router: an URL like
 * `http://x/healthz?/api/v1/connectors` is not open.
 */
const openUrl = /^(?:https?:\/\/[^/?#\\]*)?\/(?:healthz|readyz)$/;

export function isOpenUrl(url: string): boolean {
  return openUrl.test(url);
}
