/** Stands where others find buttons. */
export function ReadOnlyNote() {
  return <p class="small soft">You may only read: changes need the full credentials.</p>;
}
