-- As in 0005, for 0009. Resume marks tables at the sink as unproved. A program from before reads no such mark: it takes their rows for exact, and never compares them.
INSERT INTO "millrace"."settings" ("name", "value") VALUES ('oldest_compatible_migration', '1795649021163') ON CONFLICT ("name") DO UPDATE SET "value" = excluded."value";
