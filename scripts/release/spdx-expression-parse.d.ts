declare module "spdx-expression-parse" {
  /** Throws for what is no license expression of SPDX. */
  function parseExpression(expression: string): unknown;
  export = parseExpression;
}
