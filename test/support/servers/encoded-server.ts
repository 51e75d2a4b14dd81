// A server whose sinks' databases have another encoding and collation than its own.

import type { SinkServer } from "../pipeline/pipeline-rig.ts";

export function encodedServer(server: SinkServer, encoding: string, collation = "C"): SinkServer {
  return {
    connection: (name) => server.connection(name),
    query: (sql, database) => server.query(sql, database),
    with: (database, work) => server.with(database, work),
    createDatabase: async (name) => {
      await server.query(
        `create database "${name}" template template0 encoding '${encoding}' lc_collate '${collation}' lc_ctype '${collation}'`,
      );
    },
  };
}
