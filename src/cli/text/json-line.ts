// Finds the line of a mistake in JSON: Bun's JSON.parse says what is wrong, and not where. Pure.

/** The line, from 1, at which JSON.parse gives up on a text that it refuses: the last one if the text is not complete. */
export function lineOfMistake(text: string): number {
  const lines = text.trimEnd().split("\n");
  let right = 0;
  let wrong = lines.length;
  while (wrong - right > 1) {
    const middle = (right + wrong) >> 1;
    if (isBeginning(lines.slice(0, middle).join("\n"))) right = middle;
    else wrong = middle;
  }
  return wrong;
}

/** Whether more lines can make the text JSON. They begin outside of strings, as no string of JSON has a line end. */
function isBeginning(text: string): boolean {
  const open: string[] = [];
  const bare = text.replaceAll(/\\./g, "").replaceAll(/"[^"]*"/g, "");
  for (const [bracket] of bare.matchAll(/[[\]{}]/g)) {
    if (bracket === "{") open.push("}");
    else if (bracket === "[") open.push("]");
    else open.pop();
  }
  const end = open.reverse().join("");
  return ["", "null", ":null", '"":null'].some((next) => isJson(`${text}\n${next}${end}`));
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
