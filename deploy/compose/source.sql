-- What a source needs: a role that may replicate, read the tables, and publish them.
CREATE ROLE millrace LOGIN REPLICATION PASSWORD 'reads-the-shop';
GRANT CREATE ON DATABASE shop TO millrace;
-- To be published, a table has to be its publisher's.
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL);
ALTER TABLE orders OWNER TO millrace;
INSERT INTO orders (item) VALUES ('an apple'), ('a plum');
