// Sends a test's own messages, by the client that the Kafka sink uses too.

import { type BaseOptions, Producer } from "@platformatic/kafka";

export type ClientOptions = Omit<BaseOptions, "clientId" | "bootstrapBrokers">;

/** What `use` gives, with a producer that is closed at the end. */
export async function producing<Result>(
  brokers: string[],
  options: ClientOptions & { readonly idempotent?: boolean; readonly transactionalId?: string },
  use: (producer: Producer) => Promise<Result>,
): Promise<Result> {
  const producer = new Producer({ clientId: "test", bootstrapBrokers: brokers, ...options });
  try {
    return await use(producer);
  } finally {
    await producer.close(true);
  }
}

/** Rejects with what the client says; by itself it tries three times again. */
export async function sendMessage(
  brokers: string[],
  topic: string,
  value: string,
  options: ClientOptions = {},
): Promise<void> {
  await producing(brokers, options, async (producer) => {
    await producer.send({ acks: -1, messages: [{ topic, value: Buffer.from(value) }] });
  });
}

/** Of an error and all that it bundles or comes from. */
export function* errorCodes(error: unknown): Generator<string> {
  if (!(error instanceof Error)) return;
  const { code, apiId, errors = [] } = error as { code?: string; apiId?: string; errors?: unknown[] };
  yield* [code, apiId].filter((each) => each !== undefined);
  for (const each of [...errors, error.cause]) yield* errorCodes(each);
}
