// How many requests of `fetch` may be under way in this process. Bun allows 256: what some receivers leave unanswered would keep the
// webhooks of all other connectors waiting. It reads the limit from the environment when a process begins, so that this one begins again.

/** The most that Bun counts to. What a connector has under way is bounded by itself. */
const limit = "65535";
const setting = "BUN_CONFIG_MAX_HTTP_REQUESTS";

/** Does not return where the process begins again, under the same id. Where that cannot be, it goes on with what there is. */
export function raiseRequestLimit(): void {
  if (process.env[setting] !== undefined || process.execve === undefined) return;
  try {
    process.execve(process.execPath, [process.execPath, ...ownArguments()], {
      ...process.env,
      [setting]: limit,
    });
  } catch {
    // A limit is better than no service.
  }
}

/** A compiled program has no file of its own among its arguments. */
function ownArguments(): readonly string[] {
  const isCompiled = Bun.main.startsWith("/$bunfs/") || Bun.main.includes("~BUN");
  return isCompiled ? process.argv.slice(2) : [...process.execArgv, ...process.argv.slice(1)];
}
