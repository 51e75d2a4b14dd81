ALTER TABLE "millrace"."parked_messages" ADD COLUMN "max_place" numeric;--> statement-breakpoint
ALTER TABLE "millrace"."parked_messages" ADD COLUMN "places" jsonb;--> statement-breakpoint
ALTER TABLE "millrace"."request_cuts" ADD COLUMN "max_place" numeric;