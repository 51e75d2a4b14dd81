// PGlite's files on disk, with an fsync that reaches the disk. As it comes, PGlite runs without fsync and its file
// system has none: what it calls committed would not survive the death of the machine.

import { fsyncSync } from "node:fs";
import { PGlite } from "@electric-sql/pglite";
import { NodeFS } from "@electric-sql/pglite/nodefs";

/** The parts of Emscripten's module that are touched here. */
interface EmscriptenModule {
  readonly NODEFS?: { stream_ops?: { fsync?: (stream: { nfd: number }) => number } };
}

/** EIO, as the errors of WASI are numbered. Postgres stops at it: after a failed fsync only its log can be trusted. */
const inputOutputError = 29;

export class DurableNodeFs extends NodeFS {
  readonly #fsync: (descriptor: number) => void;

  constructor(directory: string, fsync: (descriptor: number) => void = fsyncSync) {
    super(directory);
    this.#fsync = fsync;
  }

  override async init(...args: Parameters<NodeFS["init"]>): ReturnType<NodeFS["init"]> {
    const { emscriptenOpts } = await super.init(...args);
    const addFsync = (module: EmscriptenModule) => {
      const operations = module.NODEFS?.stream_ops;
      if (!operations)
        throw new Error("PGlite's file system is not the one this version of millrace was built for");
      operations.fsync = (stream) => {
        try {
          this.#fsync(stream.nfd);
          return 0;
        } catch {
          // An exception would pass through Postgres unseen, and it would call committed what is not.
          return inputOutputError;
        }
      };
    };
    return { emscriptenOpts: { ...emscriptenOpts, preRun: [addFsync, ...(emscriptenOpts.preRun ?? [])] } };
  }
}

/**
 * PGlite's own parameters without `-F` (fsync off). The WAL is synced with `fsync`, the one call of the two that
 * Emscripten passes on to the file system. Memory is kept small: the state is.
 */
export function durableStartParameters(): string[] {
  return [
    ...PGlite.defaultStartParams.filter((parameter) => parameter !== "-F"),
    ...["-c", "wal_sync_method=fsync"],
    ...["-c", "shared_buffers=8MB"],
    ...["-c", "max_wal_size=16MB"],
    ...["-c", "min_wal_size=8MB"],
  ];
}
