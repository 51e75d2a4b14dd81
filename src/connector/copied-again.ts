// Alone in its file: the console has it too, and nothing else of the service's code.

/** Why a table is still set aside once nothing is left to do about it. */
export const copiedAgain = "It can go on: it is being copied again.";
