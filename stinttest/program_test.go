//go:build unix

package stinttest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/stinttest"
	"github.com/stint-tasks/stint/worker"
)

// What programs begin with: a statement that fails ends them.
const withPsql = `
set -e
sql() {
	psql -X -q -A -t -v ON_ERROR_STOP=1 -v id="$STINT_TASK_ID" -v token="$STINT_TASK_TOKEN" \
		"$STINT_DATABASE_URL"
}
`

// A program of "stint worker" that charges before it records.
const chargeAndRecord = withPsql + `
trap 'echo "$STINT_TASK_ID" >> "$CHARGES"; exit 1' TERM # nobody hears of a death by SIGKILL
recorded=$(echo "SELECT count(*) FROM records WHERE task = :'id'" | sql)
test "$recorded" = 0 || exit 0
echo "$STINT_TASK_ID" >> "$CHARGES"
echo "INSERT INTO records VALUES (:'id')" | sql
`

// The same with a key of idempotency.
const chargeOnceAndRecord = withPsql + `
recorded=$(echo "SELECT count(*) FROM records WHERE task = :'id'" | sql)
test "$recorded" = 0 || exit 0
grep -qxs "$STINT_TASK_ID" "$CHARGES" || echo "$STINT_TASK_ID" >> "$CHARGES"
echo "INSERT INTO records VALUES (:'id')" | sql
`

// A program that ends its task in the transaction of its records.
const recordAndFinish = withPsql + `
sql <<'END'
BEGIN;
INSERT INTO records VALUES (:'id');
SELECT stint.finish_task(:'id', :'token');
COMMIT;
END
`

// tryProgram tries a program whose charges are lines of a file, and returns the crashes.
func tryProgram(tb testing.TB, c *crashCase, script string) []string {
	tb.Helper()
	if _, err := exec.LookPath("psql"); err != nil {
		testrun.Missing(tb, "there is no psql here: apt-get install postgresql-client")
	}
	dir := processes.Write(tb, map[string]string{"act": script})
	charges := filepath.Join(dir, "charges.txt")
	return stinttest.TryEveryCrash(tb, c.store, stint.Task{Action: "act"},
		func(p *stinttest.Process) worker.Registration {
			return p.Program(filepath.Join(dir, "act"), "CHARGES="+charges)
		},
		func(ctx context.Context, task stint.TaskInfo) error {
			text, err := os.ReadFile(charges)
			if err != nil && !os.IsNotExist(err) {
				return err
			}
			c.bank.charges = map[stint.TaskID]int{
				task.ID: strings.Count(string(text), string(task.ID)+"\n"),
			}
			return c.check(ctx, task)
		})
}

// withoutIDs is a text in which statements have the ID of a task in its short form.
func withoutIDs(text string) string {
	return regexp.MustCompile(`'crash/[^"]*`).ReplaceAllString(text, "...")
}

const (
	theInputs         = `the statement "inputs" with 4 more`
	theProgramsCount  = `the statement "SELECT count(*) FROM records WHERE task = ..."`
	theProgramsInsert = `the statement "INSERT INTO records VALUES (..."`
)

// Proves G328.
func TestTryEveryCrash_NamesTheStatementOfAProgramThatChargesBeforeItRecords(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCrashCase(t, stint.Options{})
	c.charges = 1
	got := withoutIDs(failure(t, func(tb testing.TB) {
		tb.Helper()
		tryProgram(tb, c, chargeAndRecord)
	}))
	want := `TryEveryCrash: the handler does not survive 1 of 8 crashes:
	5: before ` + theProgramsInsert + `: 2 charges`
	if got != want {
		t.Errorf("the test fails with\n%s\nwant\n%s", got, want)
	}
	var crashes []string
	for _, crash := range tryProgram(t, c, chargeOnceAndRecord) {
		crashes = append(crashes, withoutIDs(crash))
	}
	wantCrashes(t, crashes, theInputs, theProgramsCount, theProgramsInsert, theReturn)
}

// Proves G328.
func TestTryEveryCrash_PassesAProgramThatFinishesItsTaskInItsTransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCrashCase(t, stint.Options{})
	functions, err := migrations.Functions(migrations.DefaultSchema)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.store.Pool.Exec(t.Context(), functions); err != nil {
		t.Fatal(err)
	}
	crashes := tryProgram(t, c, recordAndFinish)
	for _, want := range []string{`after the statement "COMMIT;"`, "after " + theReturn} {
		if !strings.Contains(strings.Join(crashes, "\n"), want) {
			t.Errorf("TryEveryCrash tried\n%s\nwant %q", strings.Join(crashes, "\n"), want)
		}
	}
	recordTwice := strings.NewReplacer("BEGIN;\n", "", "COMMIT;\n", "").Replace(recordAndFinish)
	message := withoutIDs(failure(t, func(tb testing.TB) {
		tb.Helper()
		tryProgram(tb, c, recordTwice)
	}))
	if want := "after " + theProgramsInsert + ": 2 records"; !strings.Contains(message, want) {
		t.Errorf("the test fails with\n%s\nwant %q in it", message, want)
	}
}

// A program reaches the world through a server of the test, which makes its calls.
func TestTryEveryCrash_TriesTheCallsOfAProgram(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	if _, err := exec.LookPath("curl"); err != nil {
		testrun.Missing(t, "there is no curl here: apt-get install curl")
	}
	c := newCrashCase(t, stint.Options{})
	c.charges, c.records = 2, 0
	dir := processes.Write(t, map[string]string{"act": `
set -e
curl --noproxy '*' -sf -d "$STINT_TASK_ID" "$BANK_URL"
curl --noproxy '*' -sf -d "$STINT_TASK_ID" "$BANK_URL"
`})
	message := failure(t, func(tb testing.TB) {
		tb.Helper()
		stinttest.TryEveryCrash(tb, c.store, stint.Task{Action: "act"},
			func(p *stinttest.Process) worker.Registration {
				server := httptest.NewServer(http.HandlerFunc(
					func(_ http.ResponseWriter, r *http.Request) {
						id := make([]byte, r.ContentLength)
						_, _ = r.Body.Read(id)
						if c.bank.charge(p, stint.TaskID(id)) != nil {
							<-r.Context().Done() // until the program is killed
						}
					}))
				t.Cleanup(server.Close)
				return p.Program(filepath.Join(dir, "act"), "BANK_URL="+server.URL)
			}, c.check)
	})
	want := `TryEveryCrash: the handler does not survive 4 of 8 crashes:
	4: after the call "charge": 3 charges
	5: before the call "charge": 3 charges
	6: after the call "charge": 4 charges
	7: before the statement "return_tasks" with 4 more: 4 charges`
	if message != want {
		t.Errorf("the test fails with\n%s\nwant\n%s", message, want)
	}
}

func TestTryEveryCrash_SaysThatAProgramIsMissing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t, stint.Options{})
	message := failure(t, func(tb testing.TB) {
		tb.Helper()
		stinttest.TryEveryCrash(tb, store, stint.Task{Action: "act"},
			func(p *stinttest.Process) worker.Registration {
				return p.Program(filepath.Join(t.TempDir(), "act"))
			},
			func(context.Context, stint.TaskInfo) error { return fmt.Errorf("was called") })
	})
	if !strings.Contains(message, "TryEveryCrash: without a crash: open programs: stat ") {
		t.Errorf("the test fails with %s", message)
	}
}
