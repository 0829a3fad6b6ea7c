//go:build unix

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// two are the documents of two schedules, in the order in which they are listed.
const two = `{"name":"report","spec":"0 8 * * *","zone":"Europe/Berlin","catch_up":"all",` +
	`"window":"2h","overlap":"wait","jitter":"1m","expire":true,` +
	`"from":"2026-01-02T03:04:05Z","to":"2100-01-02T03:04:05Z","tasks":[` +
	`{"id":"fetch","action":"fetch","key":"k","headers":{"h":"v"},"body":{"n":1},` +
	`"priority":3,"max_tries":7,` +
	`"post_result":true,"on_abort":"run-anyway"},` +
	`{"id":"send","action":"send","after":["fetch"]},` +
	`{"id":"mend","action":"send","when":[{"after":"fetch","states":["aborted"]}]},` +
	`{"id":"any","action":"send","when_any":[{"after":"fetch","results":["a"]}]}]}
{"name":"tick","spec":"every 1000h","tasks":[{"action":"tick","body_base64":"/w=="}]}
`

func (d *database) schedules(t *testing.T) []stint.ScheduleInfo {
	t.Helper()
	list, err := d.store.ListSchedules(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// What ls prints can be put again, and is the same then.
func TestSchedule_PutsWhatItLists(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.run(t, two, "schedule", "put").wantExit(t, 0).wantOutput(t, "put 2 schedules\n")
	first := db.schedules(t)
	report := first[0].Schedule
	if report.Zone != "Europe/Berlin" || report.CatchUp != stint.CatchUpAll ||
		report.Window != 2*time.Hour || report.Overlap != stint.OverlapWait || !report.Expire ||
		report.Jitter != time.Minute || len(report.Tasks) != 4 || report.From.IsZero() ||
		string(report.Tasks[0].Body) != `{"n":1}` || report.Tasks[0].Headers["h"] != "v" ||
		report.Tasks[0].OnAbort != stint.RunAnyway {
		t.Errorf("the store has %+v", report)
	}
	printed := db.run(t, "", "schedule", "ls", "--json").wantExit(t, 0).stdout
	db.run(t, "", "schedule", "rm", "report", "tick").wantExit(t, 0).
		wantOutput(t, "deleted 2 schedules\n")
	db.run(t, "", "schedule", "ls").wantExit(t, 0, "no schedules")
	db.run(t, printed, "schedule", "put", "-", "--json").wantExit(t, 0).
		wantOutput(t, `{"put":["report","tick"]}`)
	again := db.run(t, "", "schedule", "ls", "--json").wantExit(t, 0).stdout
	still := func(text string) string { // without when they were put
		var lines []string
		for line := range strings.Lines(text) {
			before, _, _ := strings.Cut(line, `"changed_at"`)
			lines = append(lines, before)
		}
		return strings.Join(lines, "\n")
	}
	if still(printed) != still(again) || printed == "" {
		t.Errorf("it lists\n%s\nand put again\n%s", printed, again)
	}
	table := db.run(t, "", "schedule", "ls", "tick", "none").wantExit(t, 0)
	table.wantOutput(t, "NAME", "every 1000h", "UTC")
	if strings.Contains(table.stdout, "report") {
		t.Errorf("it lists more than was named:\n%s", table.stdout)
	}
}

func TestSchedule_IsPutByFlags(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.run(t, "", "schedule", "put", "--name", "report", "--spec", "0 8 * * *", "--zone",
		"Asia/Tokyo", "--action", "report", "--body", "b").wantExit(t, 0)
	got := db.schedules(t)[0]
	if got.Spec != "0 8 * * *" || got.Zone != "Asia/Tokyo" || got.Tasks[0].Action != "report" ||
		string(got.Tasks[0].Body) != "b" {
		t.Errorf("the store has %+v", got)
	}
	db.run(t, "", "schedule", "put", "--ensure", "--name", "report", "--spec", "@daily",
		"--action", "other", "--json").wantExit(t, 0).wantOutput(t, `{"ensured":["report"]}`)
	if got := db.schedules(t)[0]; got.Spec != "0 8 * * *" {
		t.Errorf("--ensure changed the schedule: %+v", got)
	}
}

func TestSchedule_IsPausedResumedAndTriggered(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.run(t, two, "schedule", "put").wantExit(t, 0)
	db.run(t, "", "schedule", "pause", "tick", "tick").wantExit(t, 0).
		wantOutput(t, "paused 1 schedule\n")
	if db.schedules(t)[1].PausedSince.IsZero() {
		t.Error("it is not paused")
	}
	db.run(t, "", "schedule", "next", "tick", "-n", "2").
		wantExit(t, 0, "tick is paused").wantOutput(t, "NEXT")
	db.run(t, "", "schedule", "resume", "tick", "--json").wantExit(t, 0).
		wantOutput(t, `{"resumed":["tick"]}`)
	db.run(t, "", "schedule", "pause", "tick").wantExit(t, 0)
	db.run(t, "", "schedule", "resume", "report", "tick").wantExit(t, 0, "report was not paused\n").
		wantOutput(t, "resumed 1 schedule\n")
	db.run(t, "", "schedule", "resume", "tick", "--json").wantExit(t, 0, "tick was not paused\n").
		wantOutput(t, `{"resumed":[]}`)
	var next struct{ Next []time.Time }
	db.run(t, "", "schedule", "next", "report", "-n", "3", "--json").wantExit(t, 0).
		decode(t, &next)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil || len(next.Next) != 3 || next.Next[0].In(berlin).Hour() != 8 {
		t.Errorf("the next occurrences are %v, %v", next.Next, err)
	}
	id := strings.TrimSpace(db.run(t, "", "schedule", "trigger", "tick").wantExit(t, 0).stdout)
	if got := db.get(t, stint.TaskID(id)); got.Action != "tick" {
		t.Errorf("trigger prints %q, which is %+v", id, got)
	}
	for _, line := range [][]string{
		{"pause", "none", "tick"},
		{"resume", "none"},
		{"rm", "none"},
		{"trigger", "none"},
		{"next", "none"},
	} {
		db.run(t, "", append([]string{"schedule"}, line...)...).
			wantExit(t, 3, `"none"; to see which there are: stint schedule ls`)
	}
	run(t, nil, "", "schedule", "rm", "none", "--database-url", testdb.URL(db.pool)).
		wantExit(t, 3, "stint schedule ls --database-url ")
}

func TestSchedule_RefusesBadInput(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	for input, want := range map[string]string{
		"":                  "there is no schedule",
		`{"name":"a"}`:      "spec is missing",
		`{"spec":"@daily"}`: "name is missing",
		`{"name":"a","spec":"@daily","tasks":[]}`:                              "tasks are missing",
		`{"name":"a","spec":"60 * * * *","tasks":[{"action":"x"}]}`:            "line 1",
		`{"name":"a","spec":"@daily","tasks":[{"action":"x","f":1}]}`:          `unknown field "f"`,
		`{"name":"a","spec":"@daily","b":1,"tasks":[{"action":"x"}]}`:          `unknown field "b"`,
		`{"name":"a","spec":"@daily","tasks":{"action":"x"}}`:                  "must be a list",
		`{"name":"a","spec":"@daily","tasks":[{"id":"x"}]}`:                    "action is missing",
		`{"name":"a","spec":"@daily","overlap":"no","tasks":[{"action":"x"}]}`: "overlap",
		`{"name":"a","spec":"@daily","window":"1","tasks":[{"action":"x"}]}`:   "window",
		`{"name":"a","spec":"@every 1h","tasks":[{"action":"x"}]}`:             "spec: @every is",
		`{"name":"a","spec":"TZ=UTC @daily","tasks":[{"action":"x"}]}`:         `give "UTC" as`,
		`{"name":"a","spec":"@daily","zone":"1","tasks":[{"action":"x"}]}`:     `"1" is no name`,
		"{": "line 1",
	} {
		db.run(t, input, "schedule", "put").wantExit(t, 2, want)
	}
	twice := `{"name":"a","spec":"@daily","tasks":[{"action":"x"}]}` + "\n"
	db.run(t, twice+twice, "schedule", "put").wantExit(t, 2, "line 2")
	for line, want := range map[string]string{
		"schedule put --name a":                                    "--spec",
		"schedule put --name a --spec 60 --action x":               "--spec",
		"schedule put file --name a --spec @daily --action x":      "FILE excludes",
		"schedule put --name a --spec @daily --zone no --action x": `--zone: "no" is not known`,
		"schedule put none.json":                                   "none.json",
		"schedule next":                                            "one schedule",
		"schedule next a -n 0":                                     "-n must be",
		"schedule pause":                                           "names of schedules",
		"schedule trigger":                                         "one schedule",
		"schedule nothing":                                         "nothing",
	} {
		if r := db.run(t, "", strings.Fields(line)...); r.code == 0 ||
			!strings.Contains(r.stderr, want) {
			t.Errorf("stint %s: exit code %d, %s, want %q", line, r.code, r.stderr, want)
		}
	}
	if got := db.schedules(t); len(got) > 0 {
		t.Errorf("the store has %+v", got)
	}
}

// A schedule that is late is found, with what to do about it.
func TestCheck_FindsSchedulesThatAreLate(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.run(t, two, "schedule", "put").wantExit(t, 0)
	db.exec(t, "UPDATE stint.schedules SET next_at = next_at - interval '90 years'")
	db.run(t, "", "check").wantOutput(t, "2 schedules are due", `"report"`,
		"stint schedule pause ")
	db.run(t, "", "schedule", "pause", "report", "tick").wantExit(t, 0)
	if r := db.run(t, "", "check"); strings.Contains(r.stdout, "schedules are due") {
		t.Errorf("paused schedules are found late: %s", r.stdout)
	}
}

// A paused schedule that is put elsewhere as it was printed does not occur there either.
func TestSchedules_ArePutPausedIfTheyWere(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db, other := newDatabase(t), newDatabase(t)
	for _, name := range []string{"paused", "goes on"} {
		db.run(t, "", "schedule", "put", "--name", name, "--spec", "@daily", "--action", "act").
			wantExit(t, 0)
	}
	db.run(t, "", "schedule", "pause", "paused").wantExit(t, 0)
	printed := db.run(t, "", "schedule", "ls", "--json").wantExit(t, 0).stdout
	other.run(t, printed, "schedule", "put").wantExit(t, 0, "1 new schedule paused")
	wantPaused := func(want ...string) {
		t.Helper()
		list, err := other.store.ListSchedules(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var paused []string
		for i := range list {
			if !list[i].PausedSince.IsZero() {
				paused = append(paused, list[i].Name)
			}
		}
		if !slices.Equal(paused, want) {
			t.Errorf("paused are %q, want %q", paused, want)
		}
	}
	wantPaused("paused")
	other.run(t, "", "schedule", "resume", "paused").wantExit(t, 0)
	other.run(t, printed, "schedule", "put").wantExit(t, 0)
	wantPaused() // one that is there stays as it is
}
