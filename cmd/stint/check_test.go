//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A checked is what stint check --json prints.
type checked struct {
	Errors, Warnings, Notes int
	Findings                []struct{ Severity, Topic, ID, Text string }
}

// check runs stint check with this environment, whose exit code must fit what it finds.
func check(t *testing.T, env []string, args ...string) checked {
	t.Helper()
	r := run(t, env, "", append([]string{"check", "--json"}, args...)...)
	var c checked
	r.decode(t, &c)
	if c.Errors+c.Warnings+c.Notes != len(c.Findings) || c.Findings == nil {
		t.Errorf("stint %q printed %s", r.args, r.stdout)
	}
	if c.Errors+c.Warnings > 0 {
		r.wantExit(t, 9, "stint: check: something is wrong: ")
	} else {
		r.wantExit(t, 0)
	}
	return c
}

// has reports whether there is a finding of the severity with these parts.
func (c checked) has(severity string, parts ...string) bool {
	for _, f := range c.Findings {
		if f.Severity == severity && !slices.ContainsFunc(parts, func(part string) bool {
			return !strings.Contains(f.Text, part)
		}) {
			return true
		}
	}
	return false
}

func (c checked) want(t *testing.T, severity string, parts ...string) {
	t.Helper()
	if !c.has(severity, parts...) {
		t.Errorf("there is no %s with %q among %+v", severity, parts, c.Findings)
	}
}

func (c checked) wantNo(t *testing.T, topics ...string) {
	t.Helper()
	for _, f := range c.Findings {
		if slices.Contains(topics, f.Topic) {
			t.Errorf("found %+v", f)
		}
	}
}

func TestCheck_FindsNothingWhereNothingIsWrong(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	env, dir := privateHome(t)
	run(t, env, "", "check").wantExit(t, 0).wantOutput(t, "nothing is wrong\n")
	run(t, env, `{"action": "act"}`, "insert").wantExit(t, 0)
	run(t, env, "", "check").wantExit(t, 0).wantOutput(t, "note: 1 task is ready with the action")
	if c := check(t, env); c.Notes != 1 || !c.has("note", "nobody has asked for it") {
		t.Errorf("found %+v", c)
	}
	if got := onTerminal(t, env, "check"); !strings.Contains(got, "\x1b[90mnote\x1b[0m: ") {
		t.Errorf("check on a terminal printed %q", got)
	}
	wantNoServer(t, dir)
}

func TestCheck_FindsTablesThatDoNotAgree(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "lost", Action: "act"}, stint.Task{ID: "kept", Action: "other"})
	check(t, db.env).wantNo(t, "consistency", "schema", "vacuum", "maintenance", "clock", "pooler")
	db.exec(t, "DELETE FROM stint.ready WHERE action = 'act'")
	c := check(t, db.env)
	c.want(t, "error", `a task is in exactly one state: task "lost": none`)
	if f := c.Findings[0]; c.Errors == 0 || f.Severity != "error" ||
		!slices.ContainsFunc(c.Findings, func(f struct{ Severity, Topic, ID, Text string }) bool {
			return f.ID == "lost" && f.Topic == "consistency"
		}) {
		t.Errorf("found %+v", c)
	}
	db.run(t, "", "check").wantExit(t, 9, "error").wantOutput(t, "error: a task is in exactly one")
}

// Proves G171.
func TestCheck_FindsPartsOfTheSchemaThatAreMissing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.exec(t, `DROP INDEX stint.ready_order;
		ALTER TABLE stint.finished SET UNLOGGED;
		ALTER TABLE stint.leased DROP CONSTRAINT leased_span;
		UPDATE pg_index SET indisvalid = false
		WHERE indexrelid = 'stint.leases_order'::regclass`)
	c := check(t, db.env)
	c.want(t, "error", "index ready_order is missing")
	c.want(t, "error", "constraint leased_span is missing")
	c.want(t, "error", `"finished" is unlogged`, `ALTER TABLE "stint"."finished" SET LOGGED`)
	c.want(t, "error", "index leases_order is invalid", `CONCURRENTLY "stint"."leases_order"`)
	db.exec(t, "DROP TABLE stint.action_stats")
	c = check(t, db.env)
	c.want(t, "error", "table action_stats is missing")
	c.want(t, "note", "actions could not be looked at", "action_stats")
	if c.has("error", "column action_stats") {
		t.Errorf("found %+v", c)
	}
	db.exec(t, "DROP TABLE stint.settling")
	check(t, db.env).want(t, "warning", "whether the tables agree could not be looked at")
}

func TestCheck_FindsAnOldFunction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.run(t, "", "migrate", "functions").wantExit(t, 0)
	check(t, db.env).wantNo(t, "schema")
	r := db.run(t, "", "migrate", "functions", "--print-sql").wantExit(t, 0)
	db.exec(t, strings.Replace(r.stdout, "-- Version 2 ", "-- Version 1 ", 1))
	check(t, db.env).want(t, "warning", "add_task is of version 1", "stint migrate functions")
	db.run(t, "", "migrate", "functions").wantExit(t, 0)
	check(t, db.env).wantNo(t, "schema")
}

// In a schema of another name, whose text is not of the simplest.
func TestCheck_WorksOnOtherSchemas(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := databaseOn(t, testdb.NewEmpty(t))
	const schema = `Quo"ted.x`
	db.run(t, "", "check", "--schema", schema).wantExit(t, 5, "stint migrate")
	db.run(t, "", "migrate", "--schema", schema).wantExit(t, 0)
	db.run(t, `{"action": "act"}`, "insert", "--schema", schema).wantExit(t, 0)
	c := check(t, db.env, "--schema", schema)
	c.wantNo(t, "schema", "consistency", "vacuum")
	c.want(t, "note", "1 task is ready")
}

func TestCheck_NamesWhoHoldsVacuumUp(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	conn, err := pgx.Connect(t.Context(), testdb.URL(db.pool))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, statement := range []string{
		"SET application_name = 'report'", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	db.exec(t, `DO $$ BEGIN
		FOR n IN 1..10000 LOOP
			PERFORM pg_current_xact_id();
			COMMIT;
		END LOOP;
	END $$`)
	c := check(t, db.env)
	c.want(t, "note", fmt.Sprintf("process %d, report, ", conn.PgConn().PID()),
		"idle in transaction", "transactions; end it, or SELECT pg_terminate_backend(")
	if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	check(t, db.env).wantNo(t, "vacuum")
}

func TestCheck_FindsDeadRows(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.exec(t, `ALTER TABLE stint.ready SET (autovacuum_enabled = off);
		INSERT INTO stint.ready (lo, hi, tries, priority, action)
		SELECT n, n, 0, 0, 'act' FROM generate_series(1, 20000) AS n;
		DELETE FROM stint.ready;
		SELECT pg_stat_force_next_flush()`)
	var c checked
	eventually(t, "statistics of dead rows", func() bool {
		c = check(t, db.env)
		return c.has("note", `"ready" has 20,000 dead rows to 0 live ones`, "never vacuumed")
	})
	c.want(t, "warning", "autovacuum is off for the table", `"stint"."ready" RESET`)
}

// Proves G171.
func TestCheck_FindsWhatNobodySeesTo(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "expired", Action: "expired"},
		stint.Task{ID: "orphan", Action: "orphan"}, stint.Task{ID: "waiting", Action: "waiting"})
	db.own(t, "expired")
	db.exec(t, `UPDATE stint.leases SET deadline = statement_timestamp() - interval '30 seconds'`)
	db.own(t, "orphan")
	db.exec(t, `INSERT INTO stint.sessions (id, gone_at, grace, topics)
			VALUES (-42, statement_timestamp() - interval '1 minute', '0.5 s', '{}');
		UPDATE stint.leases SET session = -42 WHERE deadline > statement_timestamp();
		UPDATE stint.tasks SET inserted_at = inserted_at - interval '1 hour';
		UPDATE stint.action_stats SET asked_at = asked_at - interval '3 minutes'`)
	c := check(t, db.env)
	c.want(t, "warning", "1 task owned though the lease has expired, for up to 3", "MaintainAlways")
	c.want(t, "warning", `the process of "actor" is gone`, "1m0", "1 task is that it owned")
	c.want(t, "warning", `1 task is ready with the action "waiting"`, "for 1h00m",
		"nobody has asked for it: start a worker")
	c.wantNo(t, "consistency")

	// One who lives holds its lock, and serves what it is registered for.
	err := db.store.RegisterActor(t.Context(), "worker", []string{"waiting"})
	if err != nil {
		t.Fatal(err)
	}
	db.insert(t, stint.Task{ID: "held", Action: "held"})
	owned, err := db.store.OwnTasks(t.Context(), "worker", 1, []string{"held"}, 3600e9)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %v, %v", owned, err)
	}
	c = check(t, db.env)
	c.wantNo(t, "actions", "clock")
	if c.has("note", "worker") || c.has("warning", "worker\"") {
		t.Errorf("found %+v", c)
	}
	db.exec(t, "UPDATE stint.action_stats SET asked_at = asked_at + interval '1 hour'")
	check(t, db.env).want(t, "warning", "in the future", "clock was put back")
}

// accounts are roles of migrations/roles.sql under names of their own, and an account of each.
func (d *database) accounts(t *testing.T, groups ...string) map[string][]string {
	t.Helper()
	script, err := os.ReadFile("../../migrations/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	suffix := strings.ReplaceAll(uuid.NewString(), "-", "")
	all := []string{"owner", "producer", "worker", "monitor", "enqueuer", "operator"}
	text := string(script)
	var roles []string
	for _, group := range all {
		text = strings.ReplaceAll(text, "stint_"+group, "stint_"+group+suffix)
		roles = append(roles, "stint_"+group+suffix)
	}
	t.Cleanup(func() {
		for _, role := range roles {
			_, err := d.pool.Exec(context.WithoutCancel(t.Context()), "REASSIGN OWNED BY "+role+
				" TO CURRENT_USER; DROP OWNED BY "+role+"; DROP ROLE "+role)
			if err != nil {
				t.Errorf("drop %s: %v", role, err)
			}
		}
	})
	d.exec(t, text)
	envs := map[string][]string{}
	for _, group := range groups {
		account := "account_" + group + suffix
		d.exec(t, "CREATE ROLE "+account+" LOGIN PASSWORD 'p'; "+
			"GRANT stint_"+group+suffix+" TO "+account+"; "+
			"ALTER ROLE "+account+" SET synchronous_commit = off")
		roles = append(roles, account)
		config := d.pool.Config().ConnConfig
		envs[group] = []string{fmt.Sprintf("STINT_DATABASE_URL=host=%s port=%d dbname=%s user=%s "+
			"password=p sslmode=disable", config.Host, config.Port, config.Database, account)}
	}
	return envs
}

// Proves G171.
func TestCheck_TellsRolesWhatTheyMaySee(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "act"})
	envs := db.accounts(t, "monitor", "producer")

	c := check(t, envs["monitor"])
	c.want(t, "note", "GRANT pg_read_all_stats TO \"account_monitor")
	c.want(t, "warning", "synchronous_commit is off: ", "the last ")
	c.want(t, "note", "1 task is ready")
	c.wantNo(t, "consistency", "schema")
	if c.has("note", "could not be looked at: permission") {
		t.Errorf("found %+v", c)
	}
	c = check(t, envs["producer"])
	c.want(t, "note", "maintenance could not be looked at: permission denied for table leases")
	c.want(t, "warning", "whether the tables agree could not be looked at")

	check(t, db.env).want(t, "note", "synchronous_commit is off for account_monitor")
}

func TestCheck_SaysThatThisIsAHotStandby(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	env, dir := privateHome(t)
	run(t, env, `{"action": "act"}`, "insert").wantExit(t, 0)
	makeStandby(t, dir, "")
	c := check(t, env)
	c.want(t, "note", "hot standby", "on the primary")
	if len(c.Findings) != 1 {
		t.Errorf("found %+v", c)
	}
	wantNoServer(t, dir)
}

func TestCheck_NoticesPoolers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for mode, want := range map[string]string{
		"transaction": "a pooler gives each transaction",
		"session":     "a pooler stands between",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			port := testdb.StartPooler(t, db.pool, mode)
			config := db.pool.Config().ConnConfig
			url := fmt.Sprintf("host=127.0.0.1 port=%d dbname=%s user=%s sslmode=disable "+
				"default_query_exec_mode=exec", port, config.Database, config.User)
			env := []string{"STINT_DATABASE_URL=" + url}
			eventually(t, "the pooler answers", func() bool {
				return run(t, env, "", "migrate", "status").code == 0
			})
			check(t, env).want(t, "note", want)
			env[0] += " pool_max_conns=1"
			if c := check(t, env); !c.has("note", "a pooler") {
				t.Errorf("with one connection it found %+v", c)
			}
			if c := check(t, db.env); c.has("note", "a pooler") {
				t.Errorf("without the pooler it found %+v", c)
			}
		})
	}
}
