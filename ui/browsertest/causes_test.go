package browsertest

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// A cause is one of a trouble that somebody has at 3 am.
type cause struct {
	name   string
	make   func(s *trouble) // makes the trouble
	notice string           // what the overview says of it
	follow string           // the link of that, if only the page behind it says the cause
	says   string           // what that page says
	mend   []press          // what mends it, from there
	// told is what the page says that is to be done elsewhere, if no page mends it, and done does
	// it.
	told   string
	done   func(s *trouble)
	mended func(s *trouble) // checks that it is mended
}

// A press is one of a link or a button, once the form of the button is filled in.
type press struct {
	text string            // with * behind the beginning of one
	fill map[string]string // by the names of fields
}

// A trouble is a store in which something is wrong.
type trouble struct {
	*testing.T

	pool      *pgxpool.Pool
	store     *stint.Store
	performed chan stint.TaskID // what a worker has performed
}

// causesSQL are the statements with which time passes in a store.
//
//go:embed causes/*.sql
var causesSQL embed.FS

// exec runs a statement of causesSQL.
func (s *trouble) exec(name string, args ...any) {
	s.Helper()
	text, err := causesSQL.ReadFile("causes/" + name + ".sql")
	wantNil(s.T, err)
	_, err = s.pool.Exec(s.Context(), string(text), args...)
	wantNil(s.T, err)
}

// insert inserts so many mails, mail/1 and so on, all like one task.
func (s *trouble) insert(n int, like stint.Task) {
	s.Helper()
	tasks := make([]stint.Task, n)
	for i := range tasks {
		tasks[i] = like
		tasks[i].ID, tasks[i].Action = stint.TaskID(fmt.Sprint("mail/", i+1)), "mail"
	}
	wantNil(s.T, s.store.InsertTasks(s.Context(), tasks))
}

// own has worker-1 own so many tasks of an action, which must be there.
func (s *trouble) own(n int, action string) []stint.OwnedTask {
	s.Helper()
	owned, err := s.store.OwnTasks(s.Context(), "worker-1", n, []string{action}, time.Hour)
	wantNil(s.T, err)
	if len(owned) != n {
		s.Fatalf("%d tasks of %s are handed out, want %d", len(owned), action, n)
	}
	return owned
}

// give returns tasks.
func (s *trouble) give(owned []stint.OwnedTask, like stint.Return) {
	s.Helper()
	returns := make([]stint.Return, len(owned))
	for i := range owned {
		returns[i] = like
		returns[i].ID, returns[i].Token = owned[i].ID, owned[i].Token
	}
	verdicts, err := s.store.ReturnTasks(s.Context(), returns)
	wantNil(s.T, err)
	for _, verdict := range verdicts {
		wantNil(s.T, verdict)
	}
}

// state is in which state a task is.
func (s *trouble) state(id stint.TaskID) stint.State {
	s.Helper()
	found, err := s.store.GetTasks(s.Context(), []stint.TaskID{id})
	wantNil(s.T, err)
	return found[0].State
}

// want checks in which state a task is.
func (s *trouble) want(state stint.State, id stint.TaskID) {
	s.Helper()
	if got := s.state(id); got != state {
		s.Errorf("%s is %s, want %s", id, got, state)
	}
}

// open opens another store on the same database.
func (s *trouble) open(options stint.Options) *stint.Store {
	s.Helper()
	store, err := stint.New(s.pool, options)
	wantNil(s.T, err)
	s.Cleanup(func() { wantNil(s.T, store.Close(context.WithoutCancel(s.Context()))) })
	return store
}

// presser presses what has a text, within what is found, once it has filled in the form.
const presser = `((within, text, fill) => {
	const begins = text.endsWith("*") && text.slice(0, -1);
	const of = within && [...within.querySelectorAll("a, button")].find((e) =>
		(begins ? e.innerText.startsWith(begins) : e.innerText.trim() === text) &&
		e.checkVisibility());
	if (!of) return "no link or button " + text;
	for (const [name, value] of Object.entries(fill ?? {})) {
		const fields = [...of.form.elements].filter((e) => e.name === name && e.type !== "hidden");
		const chosen = fields.find((e) => e.type === "radio" && e.value === value);
		if (chosen) chosen.checked = true;
		else if (fields.length === 1) fields[0].value = value;
		else return "no field " + name;
	}
	window.left = true;
	of.click();
	return "";
})`

// press presses a link or a button within a part of the page, and waits for the page behind it.
func (tab *tab) press(within string, p press) {
	tab.t.Helper()
	fill := quoted(p.fill)
	said := eval[string](tab, presser+"("+within+", "+quoted(p.text)+", "+fill+")")
	if said != "" {
		tab.t.Fatalf("%s at %s:\n%s", said, eval[string](tab, "location.href"), tab.said("main"))
	}
	tab.await(`window.left === undefined && document.readyState === "complete"`)
}

// said is the text of a part of the page.
func (tab *tab) said(selector string) string {
	return strings.Join(strings.Fields(eval[string](tab,
		`document.querySelector(`+quoted(selector)+`)?.innerText ?? ""`)), " ")
}

// walk goes from the overview to a cause, and to its mend, and counts the clicks to each.
func (c *cause) walk(t *testing.T) (found, mended int) {
	t.Helper()
	s := &trouble{T: t, pool: testdb.New(t), performed: make(chan stint.TaskID, 10)}
	s.store = s.open(stint.Options{Maintenance: stint.MaintainNever})
	c.make(s)
	server := httptest.NewServer(ui.New(s.store, ui.Options{
		Authorize: func(*http.Request, ui.Verb) bool { return true },
		Logger:    slog.New(slog.DiscardHandler),
	}))
	t.Cleanup(server.Close)
	tab := open(t, look{})
	notice := `[...document.querySelectorAll(".notices li")].find((li) =>
		li.innerText.replace(/\s+/g, " ").includes(` + quoted(c.notice) + `))`
	tab.visit(server.URL)
	if !eval[bool](tab, "Boolean("+notice+")") {
		t.Fatalf("the overview does not say %q:\n%s", c.notice, tab.said(".columns"))
	}
	at := notice
	if c.follow != "" {
		tab.press(at, press{text: c.follow})
		found, mended, at = 1, 1, `document.querySelector("main")`
	}
	for _, want := range []string{c.says, c.told} {
		if !strings.Contains(tab.said("main"), want) {
			t.Fatalf("the page does not say %q:\n%s", want, tab.said("main"))
		}
	}
	for _, p := range c.mend {
		tab.press(at, p)
		mended, at = mended+1, `document.querySelector("main")`
	}
	if c.done != nil {
		c.done(s)
	} else if !eval[bool](tab, `location.pathname === "/changed"`) {
		t.Errorf("nothing was changed:\n%s", tab.said("main"))
	}
	c.mended(s)
	tab.wantCalm(c.name)
	return found, mended
}

// From the overview it is one click to the cause of a trouble, and three to its mend, with the one
// that confirms it. A test with -v prints how many of each.
//
// Proves G338.
func TestCauses_AreFewClicksAway(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const causeMost, mendMost = 1, 3
	all := testrun.Some(causes())
	var mutex sync.Mutex
	lines := make([]string, len(all))
	t.Cleanup(func() {
		t.Logf("clicks from the overview:\n%-44s cause mend\n%s", "",
			strings.Join(lines, "\n"))
	})
	for i, c := range all {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found, mended := c.walk(t)
			if found > causeMost || mended > mendMost {
				t.Errorf("%d clicks to the cause, %d to its mend", found, mended)
			}
			mend := fmt.Sprint(mended)
			if c.done != nil {
				mend = "told"
			}
			mutex.Lock()
			defer mutex.Unlock()
			lines[i] = fmt.Sprintf("%-44s %5d %4s", c.name, found, mend)
		})
	}
}
