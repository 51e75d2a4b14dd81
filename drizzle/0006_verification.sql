CREATE TABLE "millrace"."verified_tables" (
	"connector_id" text NOT NULL,
	"schema" text NOT NULL,
	"name" text NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	"as_of_lsn" text NOT NULL,
	"rows" bigint NOT NULL,
	"differing" bigint NOT NULL,
	CONSTRAINT "verified_tables_connector_id_schema_name_pk" PRIMARY KEY("connector_id","schema","name")
);
--> statement-breakpoint
ALTER TABLE "millrace"."tasks" ADD COLUMN "result" jsonb;--> statement-breakpoint
ALTER TABLE "millrace"."verified_tables" ADD CONSTRAINT "verified_tables_connector_id_connectors_id_fk" FOREIGN KEY ("connector_id") REFERENCES "millrace"."connectors"("id") ON DELETE cascade ON UPDATE no action;