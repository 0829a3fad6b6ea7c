package interleave_test

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

//go:embed sql/*.sql
var files embed.FS

// functions makes the SQL functions, of which finishTask is one.
var (
	functions        = functionsOf("stint")
	_, finishTask, _ = strings.Cut(functions, "FUNCTION \"stint\".finish_task(")
)

func functionsOf(schema string) string {
	text, err := migrations.Functions(schema)
	if err != nil {
		panic(err)
	}
	return text
}

func statement(name string) string {
	text, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// A world is a database with a fixture, which it goes back to, and two sessions on it.
type world struct {
	t     *testing.T
	pool  *pgxpool.Pool
	truth *stint.Store // past the sessions
	duel  *duel

	// owned are the tasks that were owned in the fixture, by whoever.
	owned map[stint.TaskID]stint.OwnedTask
	// checked are states that were checked, with what was wrong.
	checked map[string][]string
}

// newWorld returns a world with a fixture. Change has the sessions execute other statements than
// those of the store; nil: none.
func newWorld(t *testing.T, of fixture, change func(string) string) *world {
	t.Helper()
	pool := testdb.New(t)
	w := &world{
		t: t, pool: pool, owned: map[stint.TaskID]stint.OwnedTask{},
		checked: map[string][]string{},
	}
	_, err := pool.Exec(t.Context(), functions)
	w.ok("the functions", err)
	w.truth = w.open(pool, nil)
	t.Cleanup(func() { w.ok("Close", w.truth.Close(context.WithoutCancel(t.Context()))) })
	of.build(w)
	w.exec("save")
	config := pool.Config()
	// So that deadlocks end soon, and the session that has waited first is the one to give way.
	config.ConnConfig.RuntimeParams["deadlock_timeout"] = "100ms"
	impatient, err := pgxpool.NewWithConfig(t.Context(), config)
	w.ok("connect", err)
	t.Cleanup(impatient.Close)
	observer, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	w.ok("connect", err)
	t.Cleanup(func() { _ = observer.Close(context.WithoutCancel(t.Context())) })
	w.duel = &duel{observer: observer}
	for i, name := range []string{"A", "B"} {
		s := newSession(t, name, impatient)
		if change != nil {
			s.proxy.Change(change)
		}
		w.duel.sessions[i] = s
	}
	return w
}

// open returns a store that does nothing in the background.
func (w *world) open(pool *pgxpool.Pool, change func(*stint.Options)) *stint.Store {
	w.t.Helper()
	opts := stint.Options{
		Maintenance: stint.MaintainNever, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&opts)
	}
	store, err := stint.New(pool, opts)
	w.ok("New", err)
	pg.Of(store).Inside.(interface{ LeaveTriesUnnoted() }).LeaveTriesUnnoted()
	return store
}

func (w *world) ok(what string, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s = %v", what, err)
	}
}

func (w *world) exec(name string) {
	w.t.Helper()
	_, err := w.pool.Exec(w.t.Context(), statement(name))
	w.ok(name, err)
}

func (w *world) insert(tasks ...stint.Task) {
	w.t.Helper()
	w.ok("InsertTasks", w.truth.InsertTasks(w.t.Context(), tasks))
}

// own has "first" own n tasks with an action in one fetch.
func (w *world) own(n int, action string) {
	w.t.Helper()
	owned, err := w.truth.OwnTasks(w.t.Context(), "first", n, []string{action}, 10*day)
	w.ok("OwnTasks", err)
	if len(owned) != n {
		w.t.Fatalf("OwnTasks gave %d tasks, want %d", len(owned), n)
	}
	for _, one := range owned {
		w.owned[one.ID] = one
	}
}

// finish ends a task that "first" owns.
func (w *world) finish(id stint.TaskID, code stint.StatusCode) {
	w.t.Helper()
	w.ok("ReturnTask", w.truth.ReturnTask(w.t.Context(), id, w.owned[id].Token, "", code))
}

// A pair is two verbs on the tasks of a fixture.
type pair [2]verb

func (p pair) String() string { return p[0].name + " | " + p[1].name }

func (p pair) sampled() bool { return p[0].sampled || p[1].sampled }

// play brings the fixture back, makes both calls of a pair, and returns what came of them: their
// answers and the state.
func (w *world) play(p pair, by guide) (string, error) {
	ctx := w.t.Context()
	var calls [2]call
	var makes [2]func() string
	for i, of := range p {
		s := w.duel.sessions[i]
		calls[i] = call{
			ctx: ctx, Store: w.open(s.pool, of.options), pool: s.pool, world: w,
			actor: stint.ActorID(s.name),
		}
		if err := pg.Of(calls[i].Store).CheckUsable(ctx); err != nil { // it asks the database once
			return "", err
		}
		if of.before != nil {
			of.before(calls[i])
		}
		makes[i] = func() string { return of.call(calls[i]) }
	}
	if _, err := w.pool.Exec(ctx, "SELECT saved.restore()"); err != nil {
		return "", err
	}
	if err := w.duel.run(ctx, makes, by); err != nil {
		return "", err
	}
	var lines []string
	for i, of := range p {
		said := w.duel.sessions[i].answer
		// What is passed over since somebody else holds it, the next call finds.
		if of.again != nil {
			said = together(said, of.again(calls[i]))
		}
		lines = append(lines, w.duel.sessions[i].name+" "+of.name+": "+said)
	}
	seen, err := w.state(ctx)
	if err != nil {
		return "", err
	}
	// What is parked is seen only by what a fetch gives once all that has capacity is put back.
	last := calls[0]
	last.actor = "last"
	lines = append(append(lines, seen...), duty("unpark tasks below limits")(last),
		"then there is: "+own(last))
	for i := range calls {
		if err := calls[i].Close(ctx); err != nil {
			return "", err
		}
	}
	return moments.ReplaceAllString("\t"+strings.Join(lines, "\n\t"), "<time>"), nil
}

// together is what two calls answered, whichever of them was given which task.
func together(first, again string) string {
	parts := strings.Split(first+"; "+again, "; ")
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// moments are times in IDs.
var moments = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)

// state is what can be seen of the tasks, and what is wrong with the tables. Tables that look the
// same are checked once.
func (w *world) state(ctx context.Context) ([]string, error) {
	rows, err := w.pool.Query(ctx, statement("state"))
	if err != nil {
		return nil, err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	text := strings.Join(lines, "\n")
	problems, known := w.checked[text]
	if !known {
		found, err := w.truth.Check(ctx)
		if err != nil {
			return nil, err
		}
		for _, one := range found {
			if !strings.HasPrefix(one.Rule, overdue) { // nobody maintains
				problems = append(problems, wrong+one.String())
			}
		}
		w.checked[text] = problems
	}
	return append(lines, problems...), nil
}

// overdue begins the rule that a lease is old.
const overdue = "an expired lease"

// wrong begins the lines that say what is wrong with the tables.
const wrong = "WRONG "

// A verdict is what was found out about a pair.
type verdict struct {
	orders   int // those that came about, each once
	vain     int // those that turned out to be like others
	outcomes int // different ones
	between  int // orders that are like one after the other of their transactions only
	strayed  int
	findings []string
}

// Limits of how many orders of two calls are tried.
const (
	ordersMax  = 5000
	sampleMax  = 50 // at random, of pairs with too many
	betweenMax = 20 * sampleMax
)

// inTurn makes one call after the other.
type inTurn struct{ last bool } // the last one first

func (i inTurn) choose(open []move) int {
	if i.last {
		return open[len(open)-1].of
	}
	return open[0].of
}

func (inTurn) did(footprint) {}

// each calls use with what comes of each order of the statements of a pair, or of its transactions.
func (w *world) each(p pair, whole bool, use func(text string)) (v verdict, err error) {
	w.duel.whole = whole
	var e explorer
	for more := true; more; more = e.more() {
		e.begin()
		text, err := w.play(p, &e)
		if err != nil {
			return v, fmt.Errorf("%w, behind\n%s", err, w.duel)
		}
		if e.vain >= 0 {
			v.vain++
			continue
		}
		if v.orders++; v.orders > ordersMax {
			return v, fmt.Errorf("there are more than %d orders", ordersMax)
		}
		use(text)
	}
	v.strayed = e.strayed
	return v, nil
}

// some is each for orders at random, until use says that it has enough, or there were so many.
func (w *world) some(
	p pair, whole bool, most int, use func(text string) (enough bool),
) (v verdict, err error) {
	w.duel.whole = whole
	for v.orders < most {
		text, err := w.play(p, atRandom{})
		if err != nil {
			return v, fmt.Errorf("%w, behind\n%s", err, w.duel)
		}
		if v.orders++; use(text) {
			break
		}
	}
	return v, nil
}

// tryEach is each, or some for pairs that are sampled.
func (w *world) tryEach(p pair, use func(text string)) (verdict, error) {
	if !p.sampled() {
		return w.each(p, false, use)
	}
	return w.some(p, false, testrun.Rounds(sampleMax), func(text string) bool {
		use(text)
		return false
	})
}

// between returns what comes of the orders of the transactions of a pair. If it is sampled, these
// are tried until they have all of others.
func (w *world) between(p pair, others []string) (map[string]bool, error) {
	apart := map[string]bool{}
	if !p[0].several && !p[1].several {
		return apart, nil
	}
	if !p.sampled() {
		_, err := w.each(p, true, func(text string) { apart[text] = true })
		return apart, err
	}
	_, err := w.some(p, true, betweenMax, func(text string) bool {
		apart[text] = true
		return !slices.ContainsFunc(others, func(one string) bool { return !apart[one] })
	})
	return apart, err
}

// judge tries a pair in every order, and compares with one call after the other.
func (w *world) judge(p pair) (verdict, error) {
	serial, texts := map[string]bool{}, map[string]bool{}
	var findings []string
	for _, last := range []bool{false, true} {
		text, err := w.play(p, inTurn{last})
		if err != nil {
			return verdict{}, err
		}
		if serial[text] = true; strings.Contains(text, wrong) {
			findings = append(findings, "one after the other:\n"+text)
		}
	}
	var others []string
	first := map[string]string{} // an order for each of the others
	count := map[string]int{}
	v, err := w.tryEach(p, func(text string) {
		texts[text] = true
		if serial[text] {
			return
		}
		if count[text]++; count[text] == 1 {
			others = append(others, text)
			first[text] = w.duel.String()
		}
	})
	v.outcomes, v.findings = len(texts), findings
	if err != nil || len(others) == 0 {
		return v, err
	}
	apart, err := w.between(p, others)
	if err != nil {
		return v, err
	}
	for _, text := range others {
		if apart[text] && !strings.Contains(text, wrong) {
			v.between += count[text]
			continue
		}
		v.findings = append(v.findings, fmt.Sprintf("%s\n%s\nwhere one after the other gives\n%s",
			first[text], text, strings.Join(slices.Sorted(maps.Keys(serial)), "\nor\n")))
	}
	return v, nil
}
