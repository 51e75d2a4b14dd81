// What may go wrong: each begins, lasts, and is over when its promise resolves.

import { pollUntil } from "../../src/demo/poll-until.ts";
import type { PostgresServer as Server } from "../../src/demo/postgres-server.ts";
import { freeze, letGoOn } from "../support/servers/frozen-server.ts";
import type { TcpProxy } from "../support/servers/tcp-proxy.ts";
import { type ChaosStage, connectorIds, database } from "./chaos-stage.ts";
import { between, type Fault, oneOf, type Random, sleepSome } from "./random.ts";

type Servers = Pick<ChaosStage, "source" | "sink">;

const servers = ["source", "sink"] as const;
const lines = ["source", "sink", "receiver"] as const;

/** What was there before is tried again until it can be had. */
export async function launched(server: Server): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      return await server.launch();
    } catch (error) {
      if (tries === 40) throw error;
      await Bun.sleep(250);
    }
  }
}

/** One that was not taken down, and recovers. */
export async function untilAnswering(server: Server): Promise<void> {
  const answers = () =>
    server.query("select").then(
      () => true,
      () => false,
    );
  await pollUntil("the server answers again", answers, { timeoutMs: 60_000, intervalMs: 100 });
}

/** Somebody has the table for himself now, or it is no more: another time. */
async function attempt(stage: Servers, sql: string): Promise<void> {
  await stage.source.with(database, async (client) => {
    await client.query("set lock_timeout = '2s'").catch(() => {});
    await client.query(sql).catch(() => {});
    await client.query("reset lock_timeout").catch(() => {});
  });
}

function onLine(name: string, run: (line: TcpProxy, random: Random) => Promise<void>): Fault<ChaosStage>[] {
  return lines.map((line) => ({
    name: `${name}, ${line}`,
    run: async ({ proxies }, random) => await run(proxies[line], random),
  }));
}

const dying: readonly Fault<ChaosStage>[] = [
  {
    name: "kill -9 of the service",
    run: async ({ service }, random) => {
      await service.kill();
      await sleepSome(random, 0, 1_500);
      await service.launch();
    },
  },
  {
    name: "kill -9 of the service, again and again",
    run: async ({ service }, random) => {
      for (let kills = 0; kills < 4; kills++) {
        await service.kill();
        service.spawn();
        await sleepSome(random, 100, 1_500);
      }
      await service.kill();
      await service.launch();
    },
  },
  {
    name: "the service is stopped in order",
    run: async ({ service }) => {
      await service.stop();
      await service.launch();
    },
  },
];

const dyingServers: readonly Fault<Servers>[] = [
  ...servers.map((side) => ({
    name: `backends are ended, ${side}`,
    run: async (stage: Servers, random: Random) => {
      for (let ends = 0; ends < 3; ends++) {
        await stage[side].query(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'millrace%'",
        );
        await sleepSome(random, 100, 1_000);
      }
    },
  })),
  ...servers.map((side) => ({
    name: `a backend is killed, which its server takes for a crash, ${side}`,
    run: async (stage: Servers, random: Random) => {
      const backends = await stage[side].query<{ pid: number }>(
        "select pid from pg_stat_activity where application_name like 'millrace%'",
      );
      if (backends.length === 0) return;
      process.kill(oneOf(random, backends).pid, "SIGKILL");
      // It has to notice first.
      await Bun.sleep(1_000);
      await untilAnswering(stage[side]);
    },
  })),
  ...servers.flatMap((side) =>
    (["fast", "immediate", "kill"] as const).map((mode) => ({
      name: `the server dies (${mode}), ${side}`,
      run: async (stage: Servers, random: Random) => {
        await stage[side].stop(mode);
        await sleepSome(random, 0, 2_000);
        await launched(stage[side]);
      },
    })),
  ),
];

const networks: readonly Fault<ChaosStage>[] = [
  ...onLine("connections are cut", async (line, random) => {
    for (let cuts = 0; cuts < 3; cuts++) {
      line.cut();
      await sleepSome(random, 50, 800);
    }
  }),
  ...onLine("connections stall", async (line, random) => {
    line.stall();
    await sleepSome(random, 500, 6_000);
    line.resume();
  }),
  ...onLine("connections are slow", async (line, random) => {
    const until = performance.now() + between(random, 1_000, 4_000);
    while (performance.now() < until) {
      line.stall();
      await sleepSome(random, 20, 150);
      line.resume();
      await Bun.sleep(5);
    }
  }),
  ...onLine("connections go nowhere", async (line, random) => {
    line.strand();
    await sleepSome(random, 200, 3_000);
    line.cut();
  }),
  ...onLine("connections are half closed", async (line, random) => {
    line.halfClose(oneOf(random, ["client", "upstream"] as const));
    await sleepSome(random, 100, 1_500);
  }),
  ...onLine("connections are refused", async (line, random) => {
    line.refuse(true);
    line.cut();
    await sleepSome(random, 500, 3_000);
    line.refuse(false);
  }),
];

/** Past the longest of our timeouts and of the servers' own, of 60 s both. */
const longFreezeMs = 75_000;

function freezes<Stage>(name: string, run: (stage: Stage, ms: number) => Promise<void>): Fault<Stage>[] {
  return [
    { name, run: async (stage, random) => await run(stage, between(random, 500, 8_000)) },
    {
      name: `${name}, past every timeout`,
      weight: 0.1,
      run: async (stage) => await run(stage, longFreezeMs),
    },
  ];
}

const frozen: readonly Fault<ChaosStage>[] = freezes(
  "the service is frozen",
  async ({ service }: ChaosStage, ms) => {
    process.kill(service.pid ?? 0, "SIGSTOP");
    await Bun.sleep(ms);
    process.kill(service.pid ?? 0, "SIGCONT");
  },
);

const frozenServers = servers.flatMap((side) =>
  freezes(`the server is frozen, ${side}`, async (stage: Servers, ms) => {
    await freeze(stage[side]);
    await Bun.sleep(ms);
    await letGoOn(stage[side]);
  }),
);

export const receiverFaults: readonly Fault<Pick<ChaosStage, "receiver">>[] = (
  ["refuses", "hangs", "resets"] as const
).map((mood) => ({
  name: `the receiver ${mood}`,
  run: async ({ receiver }, random) => {
    receiver.mood = mood;
    await sleepSome(random, 500, 5_000);
    receiver.takeAgain();
  },
}));

const disks: readonly Fault<ChaosStage>[] = [
  {
    name: "the sink's disk is full",
    run: async ({ disk }, random) => {
      if (!disk) return;
      await disk.fill();
      await sleepSome(random, 500, 3_000);
      await disk.makeRoom();
    },
  },
];

/** What is no fault at the stage itself: changes of tables, tasks and commands. */
export const work: readonly Fault<Servers & Pick<ChaosStage, "api">>[] = [
  ...[
    "alter table changing add column if not exists extra int default 7",
    "alter table changing drop column if exists extra",
    "alter table changing rename column v to w; alter table changing rename column w to v",
    "alter table changing alter column v type varchar(4000); alter table changing alter column v type text",
    "truncate emptied",
    "vacuum full parents",
    "vacuum full large",
    "insert into parents (v, n) select repeat('m', 100), g from generate_series(1, 20000) g",
    "update parents set changed = changed + 1",
    "begin; savepoint a; insert into children (parent, v) select id, 's' from parents limit 500; rollback to a; update children set v = v || 'r'; commit",
  ].map((sql) => ({ name: sql.slice(0, 60), run: (stage: Servers) => attempt(stage, sql) })),
  ...connectorIds.map((id) => ({
    name: `snapshot tasks, ${id}`,
    run: async ({ api }: Pick<ChaosStage, "api">, random: Random) => {
      for (const name of ["parents", "large", "children"]) {
        const spec = { schema: "public", name, truncate: random() < 0.5 };
        await api.request("POST", `/api/v1/connectors/${id}/tasks`, { Snapshot: spec });
        await sleepSome(random, 0, 500);
      }
    },
  })),
  {
    name: "a table comes, and is written to while it is copied",
    run: async (stage: Servers, random: Random) => {
      const table = `late_${Math.floor(random() * 1e9)}`;
      await attempt(
        stage,
        `create table ${table} (id int primary key, n int, far text); alter table ${table} alter far set storage external;
         insert into ${table} select g, 0, repeat(md5(g::text), 80) from generate_series(1, 5000) g`,
      );
      for (let i = 1; i <= 30; i++) {
        const id = Math.floor(random() * 5_000);
        await attempt(
          stage,
          `update ${table} set n = ${i} where id between ${id} and ${id + 50}; delete from ${table} where id = ${id + 60};
           update ${table} set id = ${10_000 + i} where id = ${id + 70}; insert into ${table} values (${20_000 + i}, ${i}, 'new')`,
        );
        await sleepSome(random, 0, 100);
      }
    },
  },
  ...connectorIds.map((id) => ({
    name: `the connector is changed and restarted, ${id}`,
    run: async ({ api }: Pick<ChaosStage, "api">, random: Random) => {
      for (let changes = 0; changes < 5; changes++) {
        await api.call("PATCH", `/api/v1/connectors/${id}`, { name: `n${random()}` });
        await sleepSome(random, 0, 600);
        await api.command(id, oneOf(random, ["Restart", "Stop", "Start"] as const));
      }
      await api.command(id, "Start");
    },
  })),
];

export const serverFaults: readonly Fault<Servers>[] = [...dyingServers, ...frozenServers];

export const faults: readonly Fault<ChaosStage>[] = [
  ...[...dying, ...networks, ...frozen, ...serverFaults, ...receiverFaults, ...disks, ...work],
];
