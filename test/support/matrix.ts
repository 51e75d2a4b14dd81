// What runs every day, or by `bun run test:thorough`, and what `bun run test:matrix` runs beside it. Where one behaviour is shown over many seeds, versions,
// modes or kinds of deaths, a few of them show it every day; all of them would take most of a day's run and seldom find anything more.

import { test } from "bun:test";

/** Whether every variant is wanted. */
export const isWholeMatrix = process.env.MILLRACE_TEST_MATRIX === "all";

/** The variants of every day; in the matrix the others too. */
export function variants<T>(everyday: readonly T[], others: readonly T[]): readonly T[] {
  return isWholeMatrix ? [...everyday, ...others] : everyday;
}

/** Those variants that are for every day; in the matrix all. */
export function pick<T>(all: readonly T[], isForEveryDay: (each: T, index: number) => boolean): readonly T[] {
  return isWholeMatrix ? all : all.filter(isForEveryDay);
}

type Register = (name: string, body: () => Promise<void>, timeoutMs?: number) => void;

/** Registers tests that are for every day where `isForEveryDay` says so. Those of the matrix alone are no skipped ones: nobody hears of them. */
export function testEveryDay(isForEveryDay: boolean): Register {
  return isForEveryDay || isWholeMatrix ? test : () => {};
}

/** A test that the matrix alone has. */
export const matrixTest: Register = testEveryDay(false);
