-- Connectors are stored as they were given from here on. A program that does not know this migration cannot read them, and refuses the state.
COMMENT ON COLUMN "millrace"."connectors"."sealed_config" IS 'the connector as it was given, encrypted';
