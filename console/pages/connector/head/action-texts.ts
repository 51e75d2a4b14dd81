// Says before what an action will do. docs/connectors.md and docs/copies-and-tasks.md tell the same at length. Pure.

import type { Command, GivenConnector } from "../../../../src/connector/connector.ts";
import { sinkKind } from "../../../connector/endpoints.ts";
import { skipsCopies, slotOf, streams } from "../../../connector/replication.ts";

/** `ReIntialize`, the API's other spelling, means the same as `ReInitialize`. */
export type ActionCommand = Exclude<Command, "ReIntialize">;

export interface ActionText {
  /** The action and its object. */
  readonly title: string;
  readonly paragraphs: readonly string[];
  /** What somebody may have to run afterwards. */
  readonly commands: readonly string[];
}

type Config = GivenConnector["connector"];

/** `isAgain`: the connector's copies are done, so that a run copies everything again. */
export function actionText(command: ActionCommand, connector: Config, isAgain: boolean): ActionText {
  const { id } = connector;
  const text = (title: string, paragraphs: readonly string[], commands: readonly string[] = []) => ({
    title: `${title} ${id}`,
    paragraphs,
    commands,
  });
  switch (command) {
    case "Start":
    case "Restart":
      return isAgain
        ? text("Copy again:", [copyAgain(connector)])
        : text(`${command} connector`, [restart(connector)]);
    case "Stop":
      return text("Stop connector", stop(connector));
    case "Resume":
      return text("Resume and repair:", resume);
    case "ReInitialize":
      return text("Copy everything anew:", reinitialize(connector));
    case "Delete":
      return text("Delete connector", deletion(connector));
    case "ForceDelete":
      return text("Delete without the source:", forcedDeletion, streams(connector) ? leftBehind(id) : []);
  }
}

function restart(connector: Config): string {
  return streams(connector)
    ? "The run ends, and a new one goes on where it stopped. Nothing is lost. Copies that are done are not made again. The counters begin from zero."
    : "The run ends, and a new one goes on with the tables that are missing. The counters begin from zero.";
}

function copyAgain(connector: Config): string {
  const end = sinkKind(connector) === "Postgres" ? goneRows : "The sink gets every row once more.";
  return `A run begins now and copies every table from its beginning. ${end}`;
}

const goneRows =
  "Rows that are gone at the source are then gone at the sink. Readers see each table as it was until its copy is there.";

function stop(connector: Config): readonly string[] {
  if (!streams(connector)) return ["The run ends. Start goes on with the tables that are missing."];
  return [
    "The run ends. Start goes on where it stopped, and nothing is lost.",
    "Until then its slot makes the source keep its log, which takes room on the source's disk. Do not leave it so for long where much is written.",
  ];
}

const resume: readonly string[] = [
  "The slot is made again, and the stream goes on from there. Each table is compared with the source meanwhile, and rows that differ are copied or removed. Rows that are equal are not written.",
  "Until a table has had its turn, some of its rows may be out of date: the list of tables marks it as resuming.",
  "Tables without a key, and those with further unique indexes or with foreign keys in force at the sink, are copied whole.",
];

function reinitialize(connector: Config): readonly string[] {
  if (!streams(connector)) return [copyAgain(connector)];
  if (skipsCopies(connector))
    return [
      "The slot is made again, and the stream begins with the changes from then on.",
      "This connector copies nothing by itself (skip_snapshots). What changed between the old slot's place and the new one's is left out, until a snapshot task copies the tables.",
    ];
  const sink =
    sinkKind(connector) === "Postgres"
      ? "What is at the sink is replaced by it."
      : "Every row of every table goes to the sink once more.";
  return [
    `The run ends, the slot is made again, and every table is copied from its beginning. ${sink}`,
    "With large tables that takes long, and loads source and sink. The stream begins when the copies are done.",
    ...parkedToo(connector),
  ];
}

function deletion(connector: Config): readonly string[] {
  const atSource = streams(connector)
    ? "The run ends. Slot and publications that millrace made at the source are dropped, and the connector and its history are forgotten."
    : "The run ends, and the connector and its history are forgotten.";
  const atSink =
    sinkKind(connector) === "Postgres"
      ? "At the sink the tables stay with their rows, and so does the schema millrace: drop that when no connector writes there any more."
      : "What the sink has got stays there.";
  const wait = "If the source cannot be reached, the deletion waits for it.";
  return [atSource, atSink, ...parkedToo(connector), ...(streams(connector) ? [wait] : [])];
}

function parkedToo(connector: Config): readonly string[] {
  return sinkKind(connector) !== "Postgres" ? ["Messages that are parked are discarded."] : [];
}

const forcedDeletion: readonly string[] = [
  "The connector is forgotten now, whether its source can be reached or not.",
  "Where it cannot, slot and publications stay there, and the slot makes the source keep its log until somebody drops it. When the source is back, run there:",
];

function leftBehind(id: string): readonly string[] {
  const slot = slotOf(id);
  return [
    `SELECT pg_drop_replication_slot('${slot}') FROM pg_replication_slots WHERE slot_name = '${slot}';`,
    `DROP PUBLICATION IF EXISTS "${slot}", "${slot}$append";`,
  ];
}
