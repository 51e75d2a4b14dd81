// A server whose processes stand still, as on a machine that hangs, until they are let go on.

interface Server {
  /** Of its first process. */
  readonly pid?: number | undefined;
}

export const freeze = (server: Server): Promise<void> => signalAll(server, "STOP");
export const letGoOn = (server: Server): Promise<void> => signalAll(server, "CONT");

async function signalAll({ pid = 0 }: Server, signal: "STOP" | "CONT"): Promise<void> {
  // Sessions are processes of their own, and children of the first one.
  await Bun.$`pkill -${signal} -P ${pid}`.quiet().nothrow();
  process.kill(pid, `SIG${signal}`);
}
