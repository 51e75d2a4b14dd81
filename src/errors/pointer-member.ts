// The names of members in the paths of violations, which are JSON pointers: https://www.rfc-editor.org/rfc/rfc6901#section-3

export function pointerMember(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}
