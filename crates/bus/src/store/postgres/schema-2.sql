-- Version 2. The word SCHEMA stands for the name that the address gives.

-- What is deleted a moment later is not worth the time to compress it.
ALTER TABLE SCHEMA.outbox ALTER COLUMN entries SET STORAGE EXTERNAL;

-- Rows come in the order of their time, so a summary of each block finds the old ones, and costs next
-- to nothing for each new one.
DROP INDEX SCHEMA.consumed_outside_seen;
CREATE INDEX consumed_outside_seen ON SCHEMA.consumed_outside USING brin (seen);
