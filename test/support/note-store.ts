// Keeps a source's notes for as long as a test lasts, in the place of the state.

import { type NoteStore, SourceNotes } from "../../src/source/source-notes.ts";

export function noteStore(): NoteStore {
  let record: string | null = null;
  return {
    load: async () => record,
    save: async (text) => {
      record = text;
    },
  };
}

/** Of a source that has noted nothing yet. */
export function blankNotes(): Promise<SourceNotes> {
  return SourceNotes.load(noteStore());
}
