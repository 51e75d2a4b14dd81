// Names types at the sink that were renamed because new types took their names.

/** Followed by the type's OID at the sink. */
export const replacedTypePrefix = "millrace_replaced_";

/** `typeName`: as `format_type` prints it; also of an array of such a type. */
export function isReplacedType(typeName: string): boolean {
  return /(^|\.)millrace_replaced_\d+(\[\])*$/.test(typeName);
}
