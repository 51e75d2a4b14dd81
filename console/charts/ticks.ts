// The texts of an axis' ticks. Pure.

/** A text stands once: where two ticks would read the same, at least one of them is rounded. */
export function tickTexts(ticks: readonly number[], format: (value: number) => string): string[] {
  const texts = ticks.map((tick) => withoutZeros(format(tick)));
  return texts.map((text, index) => (texts.indexOf(text) === index ? text : ""));
}

/** Ticks are round numbers: 3 k rather than 3.00 k. */
function withoutZeros(text: string): string {
  return text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}
