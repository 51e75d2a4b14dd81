// How types are called that went aside for others of their names.

/** Before the OID that the type has at the sink. */
export const replacedTypePrefix = "millrace_replaced_";

/** `typeName`: as `format_type` prints it; also of an array of such a type. */
export function isReplacedType(typeName: string): boolean {
  return /(^|\.)millrace_replaced_\d+(\[\])*$/.test(typeName);
}
