// usage: bun harness.ts <only> <rows> <rounds>
import { BenchServers, database } from "/tmp/w/lead3/bench/bench-servers.ts";
import { loads } from "/tmp/w/lead3/bench/loads.ts";
import { completeSource, completeSink } from "/tmp/w/lead3/src/connector/complete-connector.ts";
import { runPipeline } from "/tmp/w/lead3/src/pipeline/run-pipeline.ts";
import { PostgresSource } from "/tmp/w/lead3/src/source/postgres/postgres-source.ts";
import { PostgresSink } from "/tmp/w/lead3/src/sink/postgres/postgres-sink.ts";
import { dropPostgresObjects } from "/tmp/w/lead3/src/source/postgres/source-objects.ts";
import { SourceNotes } from "/tmp/w/lead3/src/source/source-notes.ts";
process.on("unhandledRejection",(e)=>{console.log(e);process.exit(1)});
const [only="one insert", rows="500000", rounds="3"] = process.argv.slice(2);
await using servers = await BenchServers.start();
for (let r=0;r<Number(rounds);r++) for (const load of loads(Number(rows))) {
  if (!load.name.includes(only)) continue;
  await servers.renew();
  if (load.before) await servers.source.query(`${load.before}; analyze`, database);
  const config = completeSource({postgres:{connection: servers.source.connection(database), replication_type:{logical_replication:{}}}} as any).postgres!;
  const sinkc = completeSink({postgres:{connection: servers.sink.connection(database)}} as any).postgres!;
  let rec: string|null=null;
  const notes = await SourceNotes.load({ load: async () => rec, save: async (t) => {rec=t} });
  let initialized=false, batches=0; 
  const go = (stop: AbortController, rt: ()=>void, onWarn=(s:string)=>{}) => { const abort=new AbortController(); let t=performance.now(); return runPipeline({
    work:"changes" as const, initialized, skipSnapshots:false, parallelCopies:2, forms:["binary","text"],
    makeSource: e=>new PostgresSource(config,"millrace_h",0,{signal:abort.signal,notes,events:e,sinkFollowsShapes:true}),
    makeSink: e=>{const s=new PostgresSink(sinkc,{connectorId:"h",signal:abort.signal,checkpoints:null as any,events:e}); const w=s.write.bind(s); s.write=(b)=>{batches++; return w(b)}; return s},
    reporter:{ phase:(p,h)=>{ if(process.env.PH){console.log((performance.now()-t).toFixed(0),JSON.stringify(p),h.kind)} if(p.name==="realtime") rt(); }, initialized: async()=>{initialized=true}, progress:()=>{}, setAside:()=>{}, unreadable:()=>{} },
    tasks:{take:()=>null,onArrival:()=>{}}, stop: stop.signal, abort: abort.signal }); };
  { const stop=new AbortController(); const w=Promise.withResolvers<void>(); const run=go(stop,w.resolve); await w.promise; stop.abort(); await run; }
  await load.write(servers.source); const marker=await servers.mark();
  batches=0;
  Bun.gc(true);
  const u0=await servers.usage(); const c0=process.cpuUsage(); const t0=performance.now();
  const stop=new AbortController(); const w=Promise.withResolvers<void>(); let trt=0; const run=go(stop,()=>{trt=performance.now()-t0;w.resolve()});
  await using cl=await servers.sink.connect(database);
  while(true){ const {rowCount}=await cl.query("select from bench_marker where id=$1",[marker]); if(rowCount===1)break; await Bun.sleep(20); }
  const s=(performance.now()-t0)/1000; const c=process.cpuUsage(c0); const u1=await servers.usage();
  console.log(load.name.padEnd(28), `${s.toFixed(2)}s start ${trt.toFixed(0)}ms batches ${batches} service ${((c.user+c.system)/1e6).toFixed(2)} (sys ${(c.system/1e6).toFixed(2)}) source ${(u1.sourceCpuSeconds-u0.sourceCpuSeconds).toFixed(2)} sink ${(u1.sinkCpuSeconds-u0.sinkCpuSeconds).toFixed(2)} wal ${((u1.sinkWalBytes-u0.sinkWalBytes)/2**20).toFixed(0)}MB`);
  stop.abort(); await run; await dropPostgresObjects(config,"millrace_h",AbortSignal.timeout(20000));
}
process.exit();
