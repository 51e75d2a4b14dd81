CREATE TABLE "millrace"."parked_messages" (
	"connector_id" text NOT NULL,
	"id" uuid NOT NULL,
	"sequence" bigserial NOT NULL,
	"state" text NOT NULL,
	"cause" text NOT NULL,
	"schema_name" text NOT NULL,
	"table_name" text NOT NULL,
	"keys" text NOT NULL,
	"hashes" integer[] NOT NULL,
	"is_wide" boolean NOT NULL,
	"rows" integer NOT NULL,
	"bytes" bigint NOT NULL,
	"body" "bytea",
	"min_version" bigint NOT NULL,
	"max_version" bigint NOT NULL,
	"versions" jsonb,
	"is_of_copy" boolean NOT NULL,
	"first_lsn" text,
	"committed_at" timestamp (3) with time zone NOT NULL,
	"attempts" jsonb NOT NULL,
	"parked_at" timestamp (3) with time zone NOT NULL,
	"asked_at" timestamp with time zone,
	"ended_at" timestamp (3) with time zone,
	"ended_by" text,
	"is_passed" boolean NOT NULL,
	CONSTRAINT "parked_messages_connector_id_id_pk" PRIMARY KEY("connector_id","id")
);
--> statement-breakpoint
CREATE TABLE "millrace"."request_cuts" (
	"connector_id" text NOT NULL,
	"key" uuid NOT NULL,
	"parts" jsonb NOT NULL,
	"max_version" bigint NOT NULL,
	"is_of_copy" boolean NOT NULL,
	"cut_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "request_cuts_connector_id_key_pk" PRIMARY KEY("connector_id","key")
);
--> statement-breakpoint
ALTER TABLE "millrace"."parked_messages" ADD CONSTRAINT "parked_messages_connector_id_connectors_id_fk" FOREIGN KEY ("connector_id") REFERENCES "millrace"."connectors"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "millrace"."request_cuts" ADD CONSTRAINT "request_cuts_connector_id_connectors_id_fk" FOREIGN KEY ("connector_id") REFERENCES "millrace"."connectors"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "parked_messages_in_order" ON "millrace"."parked_messages" USING btree ("connector_id","sequence");--> statement-breakpoint
CREATE INDEX "parked_messages_asked" ON "millrace"."parked_messages" USING btree ("connector_id") WHERE asked_at is not null;--> statement-breakpoint
CREATE INDEX "parked_messages_ended" ON "millrace"."parked_messages" USING btree ("connector_id","ended_at") WHERE state <> 'parked';--> statement-breakpoint
-- As in 0005. A program from before would send changes of a row past those of it that are parked, and knows of no task but copies.
INSERT INTO "millrace"."settings" ("name", "value") VALUES ('oldest_compatible_migration', '1795636746485') ON CONFLICT ("name") DO UPDATE SET "value" = excluded."value";
