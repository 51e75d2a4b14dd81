import { InvalidArgumentError } from "commander";

/** Reads a command's option: a whole number, whose digits may be grouped as in `1_000_000`. The command refuses any other text. */
export function wholeNumberFrom(least: number): (text: string) => number {
  return (text) => {
    const value = Number(text.replaceAll("_", ""));
    if (text.trim() === "" || !Number.isSafeInteger(value) || value < least)
      throw new InvalidArgumentError(`A whole number from ${least} on.`);
    return value;
  };
}
