CREATE TABLE "millrace"."sink_record_parts" (
	"connector_id" text NOT NULL,
	"name" text NOT NULL,
	"part" text NOT NULL,
	CONSTRAINT "sink_record_parts_connector_id_name_pk" PRIMARY KEY("connector_id","name")
);
--> statement-breakpoint
ALTER TABLE "millrace"."sink_record_parts" ADD CONSTRAINT "sink_record_parts_connector_id_sink_records_connector_id_fk" FOREIGN KEY ("connector_id") REFERENCES "millrace"."sink_records"("connector_id") ON DELETE cascade ON UPDATE no action;