// Which credential a request bears, by its name, for records of who did what. The authentication has accepted it before.

import { type Authentication, usedMethods } from "./authentication.ts";

const anonymous = "anonymous";

/** A user's name, or which token it is; without authentication nobody is known. */
export function callerName(authentication: Authentication): (request: Request) => string {
  const methods = usedMethods(authentication);
  return (request) => {
    const [scheme = "", credentials = ""] = (request.headers.get("authorization") ?? "").split(/\s+/, 2);
    if (methods.bearer && scheme.toLowerCase() === "bearer") return "API token";
    if (!methods.basic || scheme.toLowerCase() !== "basic") return anonymous;
    const [name = anonymous] = Buffer.from(credentials, "base64").toString("utf8").split(":", 1);
    return name;
  };
}
