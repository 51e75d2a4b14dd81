-- A connector that is deleted and made again under its id gets no term again that it had before: each begins above a number of its own. Earlier ones keep theirs, which are far below.
CREATE SEQUENCE "millrace"."first_terms" INCREMENT BY 1000000 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1000000 CACHE 1;--> statement-breakpoint
CREATE OR REPLACE FUNCTION "millrace"."make_lease"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO "millrace"."leases" ("connector_id", "term", "ends_at") VALUES (NEW.id, nextval('millrace.first_terms'), clock_timestamp());
	RETURN NULL;
END $$;--> statement-breakpoint
-- A take-over changes a key from here on, also one by a program from before. So it alone waits for writes under the term, and a renewal does not.
CREATE UNIQUE INDEX "leases_by_term" ON "millrace"."leases" USING btree ("connector_id","term");
