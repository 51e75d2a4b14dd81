// What says that a set-aside table is copied again. In a file of its own, as the console takes its type.

/** Why a table is still set aside once nothing is left to do about it. */
export const copiedAgain = "It can go on: it is being copied again.";

/** The console knows the same text by its type. */
export type CopiedAgain = typeof copiedAgain;
