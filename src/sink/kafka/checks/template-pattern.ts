// Which topics a template of names may mean. Pure.

import type { KafkaSinkConfig } from "../../../connector/config/kafka-config.ts";

type Named = Pick<KafkaSinkConfig, "topic_name_template">;

const placeholder = /\{\w+\}/;

/** Whether a topic may be one of a table. */
export function templatePattern({ topic_name_template: template }: Named): (topic: string) => boolean {
  const constant = template.split(placeholder).map((part) => RegExp.escape(legal(part)));
  const pattern = new RegExp(`^${constant.join(".+")}$`, "s");
  return (topic) => pattern.test(topic) && !topic.startsWith("__") && topic !== "millrace.checkpoints";
}

/** What every topic begins with; empty: nothing. */
export function templatePrefix({ topic_name_template: template }: Named): string {
  return legal(template.split(placeholder)[0] ?? "");
}

function legal(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9._-]/g, "_");
}
