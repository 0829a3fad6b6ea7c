-- What a queue with leases keeps, and no more: tasks, spans of them that are ready, leased and
-- finished, and for each key what a limit of it or its turn counts.
CREATE TABLE raw_job (
    key bigint PRIMARY KEY, id text NOT NULL, limit_key text COLLATE "C" NOT NULL, body bytea);
CREATE TABLE raw_ready (
    limit_key text COLLATE "C", lo bigint, hi bigint NOT NULL, PRIMARY KEY (limit_key, lo));
CREATE TABLE raw_leased (lo bigint PRIMARY KEY, hi bigint NOT NULL, claim bigint NOT NULL);
CREATE TABLE raw_finished (lo bigint PRIMARY KEY, hi bigint NOT NULL, claim bigint NOT NULL);
CREATE TABLE raw_held (limit_key text COLLATE "C" PRIMARY KEY, key bigint, claim bigint);
CREATE TABLE raw_turn (pass bigint, limit_key text COLLATE "C", PRIMARY KEY (pass, limit_key))
