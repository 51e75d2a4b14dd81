CREATE TABLE "millrace"."connectors" (
	"id" text PRIMARY KEY NOT NULL,
	"slot_name" text NOT NULL,
	"sealed_config" text NOT NULL,
	"stopped" boolean NOT NULL,
	"deletion" text,
	"sealed_cleanup" text,
	"initialized" boolean NOT NULL,
	"run_id" uuid NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "connectors_slot_name_unique" UNIQUE("slot_name")
);
--> statement-breakpoint
CREATE TABLE "millrace"."settings" (
	"name" text PRIMARY KEY NOT NULL,
	"value" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "millrace"."sink_records" (
	"connector_id" text PRIMARY KEY NOT NULL,
	"record" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "millrace"."status_history" (
	"sequence" bigserial PRIMARY KEY NOT NULL,
	"id" uuid NOT NULL,
	"connector_id" text NOT NULL,
	"run_id" uuid NOT NULL,
	"component" text NOT NULL,
	"status" jsonb NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "millrace"."tasks" (
	"sequence" bigserial PRIMARY KEY NOT NULL,
	"id" uuid NOT NULL,
	"connector_id" text NOT NULL,
	"state" text NOT NULL,
	"spec" jsonb NOT NULL,
	"spec_key" text NOT NULL,
	"reason" text,
	"attempt" integer NOT NULL,
	"next_attempt_at" timestamp (3) with time zone,
	"rows" bigint NOT NULL,
	"bytes" bigint NOT NULL,
	"estimated_rows" bigint NOT NULL,
	"created_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "tasks_id_unique" UNIQUE("id")
);
--> statement-breakpoint
ALTER TABLE "millrace"."sink_records" ADD CONSTRAINT "sink_records_connector_id_connectors_id_fk" FOREIGN KEY ("connector_id") REFERENCES "millrace"."connectors"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "millrace"."status_history" ADD CONSTRAINT "status_history_connector_id_connectors_id_fk" FOREIGN KEY ("connector_id") REFERENCES "millrace"."connectors"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "millrace"."tasks" ADD CONSTRAINT "tasks_connector_id_connectors_id_fk" FOREIGN KEY ("connector_id") REFERENCES "millrace"."connectors"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "status_history_by_connector" ON "millrace"."status_history" USING btree ("connector_id","sequence");--> statement-breakpoint
CREATE INDEX "tasks_by_connector" ON "millrace"."tasks" USING btree ("connector_id","sequence");--> statement-breakpoint
CREATE UNIQUE INDEX "tasks_open_spec" ON "millrace"."tasks" USING btree ("connector_id","spec_key") WHERE state in ('Pending', 'Running');