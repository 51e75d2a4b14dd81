// The SQLSTATEs that decisions depend on, by the names that PostgreSQL gives them.
// https://www.postgresql.org/docs/current/errcodes-appendix.html

export const sqlState = {
  protocolViolation: "08P01",
  featureNotSupported: "0A000",
  dataException: "22000",
  invalidParameterValue: "22023",
  invalidTextRepresentation: "22P02",
  notNullViolation: "23502",
  foreignKeyViolation: "23503",
  uniqueViolation: "23505",
  checkViolation: "23514",
  exclusionViolation: "23P01",
  readOnlyTransaction: "25006",
  invalidAuthorizationSpecification: "28000",
  invalidSchemaName: "3F000",
  insufficientPrivilege: "42501",
  syntaxError: "42601",
  undefinedColumn: "42703",
  undefinedObject: "42704",
  duplicateObject: "42710",
  undefinedTable: "42P01",
  invalidTableDefinition: "42P16",
  configurationLimitExceeded: "53400",
  objectNotInPrerequisiteState: "55000",
  objectInUse: "55006",
  lockNotAvailable: "55P03",
  queryCanceled: "57014",
  undefinedFile: "58P01",
  internalError: "XX000",
} as const;

export function isSqlState(code: string): boolean {
  return /^[0-9A-Z]{5}$/.test(code) && !nodeCodes.has(code);
}

/** Codes of node:net that look like an SQLSTATE. */
const nodeCodes = new Set(["EPIPE", "EBUSY", "EPERM", "EBADF", "EXDEV"]);
