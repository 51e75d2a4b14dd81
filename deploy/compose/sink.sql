-- What a sink needs: a role that may make its tables.
CREATE ROLE millrace LOGIN PASSWORD 'fills-the-warehouse';
GRANT CREATE, TEMPORARY ON DATABASE warehouse TO millrace;
GRANT CREATE ON SCHEMA public TO millrace;
