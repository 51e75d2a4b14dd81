// Keeps down what is left behind by a large value that passes through in small parts. While a value of 200 MB is held, the
// collector lets as much garbage come together beside it before it looks.

const collectEveryBytes = 24 * 1024 * 1024;

export class PassingBytes {
  #since = 0;

  constructor(private readonly collect: () => void = () => Bun.gc(true)) {}

  /** So many bytes have passed, in buffers that nothing needs any more. */
  note(bytes: number): void {
    this.#since += bytes;
    if (this.#since < collectEveryBytes) return;
    this.#since = 0;
    this.collect();
  }
}
