-- Several replicas may serve one state from here on, each connector under a lease. A program that does not know leases must not write here: it is refused.
CREATE TABLE "millrace"."lease_terms" (
	"connector_id" text NOT NULL,
	"term" bigint NOT NULL,
	"replica_id" text NOT NULL,
	"taken_at" timestamp (3) with time zone NOT NULL,
	CONSTRAINT "lease_terms_connector_id_term_pk" PRIMARY KEY("connector_id","term")
);
--> statement-breakpoint
CREATE TABLE "millrace"."leases" (
	"connector_id" text PRIMARY KEY NOT NULL,
	"term" bigint DEFAULT 0 NOT NULL,
	"holder" uuid,
	"ends_at" timestamp (3) with time zone,
	"active" boolean DEFAULT true NOT NULL
) WITH (fillfactor = 50);
--> statement-breakpoint
CREATE TABLE "millrace"."replicas" (
	"id" text PRIMARY KEY NOT NULL,
	"instance" uuid NOT NULL,
	"host" text NOT NULL,
	"version" text NOT NULL,
	"weight" integer NOT NULL,
	"lease_ms" integer NOT NULL,
	"started_at" timestamp (3) with time zone NOT NULL,
	"seen_at" timestamp (3) with time zone NOT NULL,
	"trouble" text,
	CONSTRAINT "replicas_instance_unique" UNIQUE("instance")
);
--> statement-breakpoint
CREATE UNLOGGED TABLE "millrace"."run_reports" (
	"connector_id" text NOT NULL,
	"kind" text NOT NULL,
	"term" bigint NOT NULL,
	"holder" uuid NOT NULL,
	"version" bigint NOT NULL,
	"body" text NOT NULL,
	CONSTRAINT "run_reports_connector_id_kind_pk" PRIMARY KEY("connector_id","kind")
);
--> statement-breakpoint
ALTER TABLE "millrace"."lease_terms" ADD CONSTRAINT "lease_terms_connector_id_connectors_id_fk" FOREIGN KEY ("connector_id") REFERENCES "millrace"."connectors"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "millrace"."leases" ADD CONSTRAINT "leases_connector_id_connectors_id_fk" FOREIGN KEY ("connector_id") REFERENCES "millrace"."connectors"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "millrace"."run_reports" ADD CONSTRAINT "run_reports_connector_id_connectors_id_fk" FOREIGN KEY ("connector_id") REFERENCES "millrace"."connectors"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
INSERT INTO "millrace"."leases" ("connector_id", "ends_at") SELECT "id", clock_timestamp() FROM "millrace"."connectors";--> statement-breakpoint
CREATE FUNCTION "millrace"."make_lease"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO "millrace"."leases" ("connector_id", "ends_at") VALUES (NEW.id, clock_timestamp());
	RETURN NULL;
END $$;--> statement-breakpoint
CREATE TRIGGER "make_lease" AFTER INSERT ON "millrace"."connectors" FOR EACH ROW EXECUTE FUNCTION "millrace"."make_lease"();--> statement-breakpoint
-- Replicas tell sessions of their own from those of others by the name that a session gives itself.
CREATE FUNCTION "millrace"."tell_connector"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_notify('millrace', json_build_object('what', 'connector', 'connector', coalesce(NEW.id, OLD.id), 'by', current_setting('application_name'))::text);
	RETURN NULL;
END $$;--> statement-breakpoint
CREATE TRIGGER "tell_connector" AFTER INSERT OR UPDATE OR DELETE ON "millrace"."connectors" FOR EACH ROW EXECUTE FUNCTION "millrace"."tell_connector"();--> statement-breakpoint
CREATE FUNCTION "millrace"."tell_task"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_notify('millrace', json_build_object('what', 'task', 'connector', NEW.connector_id, 'task', NEW.id, 'by', current_setting('application_name'))::text);
	RETURN NULL;
END $$;--> statement-breakpoint
CREATE TRIGGER "tell_task" AFTER INSERT OR UPDATE ON "millrace"."tasks" FOR EACH ROW EXECUTE FUNCTION "millrace"."tell_task"();--> statement-breakpoint
CREATE FUNCTION "millrace"."tell_lease"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_notify('millrace', json_build_object('what', 'lease', 'connector', NEW.connector_id, 'by', current_setting('application_name'))::text);
	RETURN NULL;
END $$;--> statement-breakpoint
CREATE TRIGGER "tell_lease" AFTER UPDATE ON "millrace"."leases" FOR EACH ROW WHEN (OLD.holder IS DISTINCT FROM NEW.holder) EXECUTE FUNCTION "millrace"."tell_lease"();--> statement-breakpoint
-- The "when" of a migration in meta/_journal.json, here this one's: a program that knows it may work on the tables, whatever later migrations add.
INSERT INTO "millrace"."settings" ("name", "value") VALUES ('oldest_compatible_migration', '1795625191213') ON CONFLICT ("name") DO UPDATE SET "value" = excluded."value";
