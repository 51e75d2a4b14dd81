// Reads what may be larger than there is room for.

/** Bytes as they come: the size of a pipe or a device is not known before. Throws once there are more than `maxBytes`, and what the stream throws. */
export async function readBounded(stream: AsyncIterable<Buffer>, maxBytes: number): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stream) {
    size += chunk.length;
    if (size > maxBytes) throw new Error(`it has more than ${maxBytes / 2 ** 20} MB`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
