// A set of 64-bit hashes in plain memory: 8 bytes for each and as much room again, whatever there are.

const firstSlots = 1024;

export class HashSet {
  /** Two words a slot; zero twice: it is free. */
  #words = new Uint32Array(firstSlots * 2);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(hash: bigint): void {
    if (this.#size * 2 >= this.#words.length / 2) this.#grow();
    if (put(this.#words, lowWord(hash), highWord(hash))) this.#size++;
  }

  has(hash: bigint): boolean {
    const [low, high] = [lowWord(hash), highWord(hash)];
    const words = this.#words;
    const at = slotOf(words, low, high);
    return words[at] === low && words[at + 1] === high;
  }

  #grow(): void {
    const before = this.#words;
    this.#words = new Uint32Array(before.length * 2);
    for (let at = 0; at < before.length; at += 2) {
      if (before[at] !== 0 || before[at + 1] !== 0) put(this.#words, before[at]!, before[at + 1]!);
    }
  }
}

/** Whether it was not there. */
function put(words: Uint32Array, low: number, high: number): boolean {
  const at = slotOf(words, low, high);
  if (words[at] === low && words[at + 1] === high) return false;
  words[at] = low;
  words[at + 1] = high;
  return true;
}

/** Where the hash is, or the free slot where it would be. There is one: at most half of them are taken. */
function slotOf(words: Uint32Array, low: number, high: number): number {
  const mask = words.length / 2 - 1;
  let slot = (low ^ high) & mask;
  while (true) {
    const at = slot * 2;
    const isFree = words[at] === 0 && words[at + 1] === 0;
    if (isFree || (words[at] === low && words[at + 1] === high)) return at;
    slot = (slot + 1) & mask;
  }
}

/** Never zero, so that no hash looks like a free slot. */
function lowWord(hash: bigint): number {
  return Number(hash & 0xffff_ffffn) || 1;
}

function highWord(hash: bigint): number {
  return Number(hash >> 32n);
}
