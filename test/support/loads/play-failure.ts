// What is told of a random play that fails: where it ended, and in the last line what brings it back. A long run of tests may keep no more.

/** Throws what the play has failed of, with its seed and its path behind it. The whole case follows from these. */
export async function withItsPlace(play: Promise<void>): Promise<void> {
  try {
    await play;
  } catch (error) {
    const { message, cause } = error as Error;
    const [place = message] = /\{ seed: [^}]*\}/.exec(message) ?? [];
    const text = cause instanceof Error ? cause.message : message;
    throw new Error(`${text}\nrandom play failed: ${place}`);
  }
}
