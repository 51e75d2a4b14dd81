CREATE TABLE "millrace"."receipt_tables" (
	"connector_id" text PRIMARY KEY NOT NULL,
	"tables" jsonb NOT NULL
);
--> statement-breakpoint
CREATE TABLE "millrace"."receipts" (
	"connector_id" text NOT NULL,
	"id" uuid NOT NULL,
	"began_at" timestamp (3) with time zone NOT NULL,
	"requests" integer NOT NULL,
	"body" "bytea" NOT NULL,
	"filter" "bytea" NOT NULL,
	CONSTRAINT "receipts_connector_id_id_pk" PRIMARY KEY("connector_id","id")
);
--> statement-breakpoint
ALTER TABLE "millrace"."receipt_tables" ADD CONSTRAINT "receipt_tables_connector_id_connectors_id_fk" FOREIGN KEY ("connector_id") REFERENCES "millrace"."connectors"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "millrace"."receipts" ADD CONSTRAINT "receipts_connector_id_connectors_id_fk" FOREIGN KEY ("connector_id") REFERENCES "millrace"."connectors"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
-- They do not compress any more: an attempt would cost more than all else of a save.
ALTER TABLE "millrace"."receipts" ALTER COLUMN "body" SET STORAGE EXTERNAL, ALTER COLUMN "filter" SET STORAGE EXTERNAL;
