CREATE TABLE "millrace"."source_records" (
	"connector_id" text PRIMARY KEY NOT NULL,
	"record" text NOT NULL
);
--> statement-breakpoint
ALTER TABLE "millrace"."source_records" ADD CONSTRAINT "source_records_connector_id_connectors_id_fk" FOREIGN KEY ("connector_id") REFERENCES "millrace"."connectors"("id") ON DELETE cascade ON UPDATE no action;