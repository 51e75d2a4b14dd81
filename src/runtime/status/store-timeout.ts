// Bounds a query of the state store for callers that must answer soon: a load balancer's probe, a scrape.

/** Prometheus gives up a scrape after 10 s, a probe often sooner. */
const answerMs = 2_000;

/** The query's result, or `fallback` when the store does not answer in time. Throws what the query throws. */
export async function withStoreTimeout<T>(query: Promise<T>, fallback: T): Promise<T> {
  const late = Promise.withResolvers<T>();
  const timer = setTimeout(() => late.resolve(fallback), answerMs);
  try {
    return await Promise.race([query, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
