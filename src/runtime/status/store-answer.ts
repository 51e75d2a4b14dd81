// What is asked of the state store by who must have an answer soon: a load balancer's probe, a scrape.

/** Prometheus gives a scrape up after 10 s, a probe often sooner. */
const answerMs = 2_000;

/** What comes of `asked`, or `absent` when the store does not answer in time. Throws what `asked` throws. */
export async function storeAnswer<T>(asked: Promise<T>, absent: T): Promise<T> {
  const late = Promise.withResolvers<T>();
  const timer = setTimeout(() => late.resolve(absent), answerMs);
  try {
    return await Promise.race([asked, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
