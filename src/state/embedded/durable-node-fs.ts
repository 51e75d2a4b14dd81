// PGlite's files on disk, with an fsync that reaches the disk. By default PGlite runs without fsync and its file system
// has none, so that a commit would not survive the death of the machine.

import { fsyncSync } from "node:fs";
import { PGlite } from "@electric-sql/pglite";
import { NodeFS } from "@electric-sql/pglite/nodefs";

/** The parts of Emscripten's module that are used here. */
interface EmscriptenModule {
  readonly NODEFS?: { stream_ops?: { fsync?: (stream: { nfd: number }) => number } };
}

/** EIO in WASI's numbering. Postgres panics at it: after a failed fsync only the WAL can be trusted. */
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
          // An exception would pass through Postgres unnoticed, and it would report a commit that is not durable.
          return inputOutputError;
        }
      };
    };
    return { emscriptenOpts: { ...emscriptenOpts, preRun: [addFsync, ...(emscriptenOpts.preRun ?? [])] } };
  }
}

/**
 * PGlite's own parameters without `-F` (fsync off). `wal_sync_method` is `fsync`, the only sync call that Emscripten
 * passes on to the file system. The state is small and has one session, so memory is kept small.
 */
export function durableStartParameters(): string[] {
  return [
    ...PGlite.defaultStartParams.filter((parameter) => parameter !== "-F"),
    ...["-c", "wal_sync_method=fsync"],
    ...["-c", "shared_buffers=2MB"],
    ...["-c", "max_connections=1"],
    ...["-c", "max_wal_size=16MB"],
    ...["-c", "min_wal_size=8MB"],
    // Nobody gathers statistics here. Without them it takes long lists for short ones, and sorts all of one for each of its pages.
    ...["-c", "enable_bitmapscan=off"],
  ];
}
