-- Keeps what is in the tables, and makes saved.restore(), which brings it back, and functions for
-- state.sql.
CREATE SCHEMA saved;

-- Tokens end with claims, which are random where tests make new ones: only those that were there
-- at the beginning have names.
CREATE TABLE saved.claims AS
SELECT claim, row_number() OVER (ORDER BY min(place), min(key))::text AS name
FROM (
    SELECT claim, 1 AS place, lo AS key FROM stint.leased
    UNION ALL SELECT claim, 2, lo FROM stint.ready
    UNION ALL SELECT claim, 3, key FROM stint.scheduled
    UNION ALL SELECT claim, 4, key FROM stint.blocked
    UNION ALL SELECT claim, 5, lo FROM stint.finished
) AS held
WHERE claim IS NOT NULL
GROUP BY claim;

CREATE FUNCTION saved.name_of(bigint) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN $1 IS NULL THEN '-' ELSE coalesce(
        (SELECT name FROM saved.claims WHERE claim = $1),
        (SELECT '~' || name FROM saved.claims WHERE claim = ~$1), 'new') END
$$;

CREATE FUNCTION saved.id_of(bigint) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT id FROM stint.tasks WHERE key = $1), '(gone)')
$$;

-- How far a time is away, so that what took minutes more is the same.
CREATE FUNCTION saved.away(timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN $1 IS NULL THEN '-'
        WHEN $1 = 'infinity' THEN 'never'
        WHEN $1 <= clock_timestamp() THEN 'past'
        ELSE 'in ' || round(extract(epoch FROM $1 - clock_timestamp()) / 86400) || ' days'
    END
$$;

DO $make$
DECLARE
    statements text := '';
    one record;
BEGIN
    FOR one IN
        SELECT attrelid::regclass AS name, relname AS short,
               string_agg(quote_ident(attname), ', ' ORDER BY attnum) AS columns
        FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'stint'::regnamespace AND relkind = 'r' AND attnum > 0
          AND NOT attisdropped AND attgenerated = ''
          AND relname NOT IN ('supported', 'stint_schema_version', 'dependency_lock', 'origin')
          AND relname NOT LIKE 'taskstore%'
        GROUP BY attrelid, relname
    LOOP
        EXECUTE format('CREATE TABLE saved.%I AS SELECT %s FROM %s', one.short, one.columns,
                       one.name);
        statements := statements || format('DELETE FROM %2$s; INSERT INTO %2$s (%3$s) '
            'SELECT %3$s FROM saved.%1$I; ', one.short, one.name, one.columns);
    END LOOP;
    statements := statements || format('PERFORM setval(''stint.positions'', %s); ',
                                       nextval('stint.positions'));
    EXECUTE format('CREATE FUNCTION saved.restore() RETURNS void LANGUAGE plpgsql AS %L',
                   'BEGIN ' || statements || 'END');
END
$make$;
