-- Fills the schema "evil" with functions, operators, aggregates and types that somebody could have
-- made to be called in the place of PostgreSQL's: copies, which are found where the schema comes
-- before pg_catalog in the path, and ones whose arguments fit better than those of the originals,
-- which are found even where it comes behind (CVE-2018-1058). Each warns that it ran, and moves the
-- sequence.
CREATE SCHEMA evil;
CREATE SEQUENCE evil.times;
CREATE FUNCTION evil.ran(pg_catalog.text) RETURNS boolean LANGUAGE plpgsql AS
$$BEGIN
    PERFORM pg_catalog.nextval('evil.times');
    RAISE WARNING 'diverted: %', $1;
    RETURN true;
END$$;
DO $do$
DECLARE
    it record;
    nothing text;
BEGIN
    FOR it IN
        SELECT DISTINCT op.name, one.type AS one, other.type AS other,
               coalesce(pg_operator.oprresult::regtype::text,
                        CASE WHEN op.name IN ('+', '-', '*', '/') THEN 'numeric'
                             ELSE 'boolean' END) AS result
        FROM unnest('{=,<>,<,>,<=,>=,+,-,*,/,<<,>>,|,||}'::text[]) AS op (name)
        CROSS JOIN unnest('{smallint,integer,bigint,numeric,text,timestamptz,interval,boolean,oid,
            name,bigint[],text[],double precision}'::text[]) AS one (type)
        CROSS JOIN unnest('{smallint,integer,bigint,numeric,text,timestamptz,interval,boolean,oid,
            name,bigint[],text[],double precision}'::text[]) AS other (type)
        LEFT JOIN pg_operator ON oprname = op.name AND oprleft = one.type::regtype
            AND oprright = other.type::regtype
        WHERE pg_operator.oid IS NOT NULL
           OR one.type IN ('smallint', 'integer', 'bigint', 'numeric')
          AND other.type IN ('smallint', 'integer', 'bigint', 'numeric')
          AND op.name NOT IN ('<<', '>>', '|', '||')
    LOOP
        EXECUTE format('CREATE FUNCTION evil.%I(%s, %s) RETURNS %s LANGUAGE plpgsql AS '
            '$f$BEGIN PERFORM evil.ran(%L); RETURN NULL; END$f$',
            'operator ' || it.name, it.one, it.other, it.result,
            format('operator %s %s %s', it.one, it.name, it.other));
        EXECUTE format('CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = evil.%I)',
            it.name, it.one, it.other, 'operator ' || it.name);
    END LOOP;
    FOR it IN
        SELECT proname, oid::regprocedure AS signature, proretset,
               pg_get_function_result(oid) AS result,
               pg_get_function_identity_arguments(oid) AS arguments
        FROM pg_proc
        WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f'
          AND NOT EXISTS (
              SELECT
              FROM unnest(proargtypes::oid[] || prorettype) AS of (type)
              JOIN pg_type ON pg_type.oid = of.type
              WHERE typtype = 'p'
          )
          AND proname IN ('statement_timestamp', 'now', 'generate_series', 'set_config',
              'current_setting', 'pg_notify', 'pg_advisory_lock_shared', 'pg_advisory_lock',
              'pg_advisory_xact_lock', 'pg_advisory_xact_lock_shared', 'pg_advisory_unlock',
              'pg_try_advisory_xact_lock', 'pg_try_advisory_xact_lock_shared',
              'pg_try_advisory_lock', 'pg_backend_pid', 'pg_relation_size', 'nextval',
              'octet_length', 'to_regnamespace', 'obj_description', 'hashtextextended', 'age',
              'current_database', 'pg_is_in_recovery', 'pg_has_role', 'version')
    LOOP
        EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s LANGUAGE plpgsql AS '
            '$f$BEGIN PERFORM evil.ran(%L); RETURN%s; END$f$',
            it.proname, it.arguments, it.result, it.signature,
            CASE WHEN it.proretset THEN '' ELSE ' NULL' END);
    END LOOP;
    FOR it IN
        SELECT format_type(of.type, NULL) AS element
        FROM unnest('{smallint,integer,bigint,boolean,text,bytea,interval,timestamptz}'::regtype[])
            AS of (type)
    LOOP
        EXECUTE format('CREATE FUNCTION evil.unnest(%1$s[]) RETURNS SETOF %1$s LANGUAGE plpgsql AS '
            '$f$BEGIN PERFORM evil.ran(''unnest''); END$f$', it.element);
        EXECUTE format('CREATE FUNCTION evil.generate_subscripts(%1$s[], integer) '
            'RETURNS SETOF integer LANGUAGE plpgsql AS '
            '$f$BEGIN PERFORM evil.ran(''generate_subscripts''); END$f$', it.element);
        EXECUTE format('CREATE FUNCTION evil.gather(%1$s[], %1$s) RETURNS %1$s[] '
            'LANGUAGE plpgsql AS $f$BEGIN PERFORM evil.ran(''array_agg''); RETURN NULL; END$f$',
            it.element);
        EXECUTE format('CREATE AGGREGATE evil.array_agg(%1$s) '
            '(SFUNC = evil.gather, STYPE = %1$s[])', it.element);
        EXECUTE format('CREATE FUNCTION evil.take(%1$s, %1$s) RETURNS %1$s '
            'LANGUAGE plpgsql AS $f$BEGIN PERFORM evil.ran(''aggregate''); RETURN NULL; END$f$',
            it.element);
        FOREACH nothing IN ARRAY '{lag,min,max}'::text[] LOOP
            EXECUTE format('CREATE AGGREGATE evil.%2$I(%1$s) '
                '(SFUNC = evil.take, STYPE = %1$s)', it.element, nothing);
        END LOOP;
    END LOOP;
    FOR it IN SELECT name FROM unnest('{nextval,pg_advisory_lock,pg_advisory_unlock}'::text[]) name
    LOOP
        EXECUTE format('CREATE FUNCTION evil.%I(text) RETURNS bigint LANGUAGE plpgsql AS '
            '$f$BEGIN PERFORM evil.ran(%L); RETURN 1; END$f$', it.name, it.name || '(text)');
    END LOOP;
    FOR it IN SELECT name FROM unnest('{text,bigint,smallint}'::text[]) name LOOP
        EXECUTE format('CREATE FUNCTION evil.format(text, %s) RETURNS text LANGUAGE plpgsql AS '
            '$f$BEGIN PERFORM evil.ran(''format''); RETURN ''''; END$f$', it.name);
    END LOOP;
    FOR it IN SELECT name FROM unnest('{bytea,timestamptz,oid,text}'::text[]) name LOOP
        EXECUTE format('CREATE DOMAIN evil.%1$I AS pg_catalog.%1$s CHECK (evil.ran(%2$L))',
            it.name, 'type ' || it.name);
    END LOOP;
END
$do$
