package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

// makeJournal lets the database write down what happens to tasks, in the transaction in which it
// does, and the order in which transactions end: while a transaction is about to commit, it still
// holds its locks, so whoever waits for them ends later.
const makeJournal = `
CREATE TABLE public.journal (
	number bigint GENERATED ALWAYS AS IDENTITY,
	tx     text   NOT NULL DEFAULT pg_current_xact_id()::text,
	kind   text   NOT NULL,
	entry  jsonb  NOT NULL
);
CREATE TABLE public.ends (number bigint GENERATED ALWAYS AS IDENTITY, tx text PRIMARY KEY);
CREATE FUNCTION public.write_down() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	entry jsonb := coalesce(to_jsonb(NEW), to_jsonb(OLD));
BEGIN
	INSERT INTO public.journal (kind, entry) -- for each task of a span
	SELECT lower(TG_OP) || ' ' || TG_TABLE_NAME, entry || jsonb_build_object('key', key)
	FROM generate_series((entry->>'lo')::bigint, (entry->>'hi')::bigint) AS key;
	IF NOT FOUND THEN
		INSERT INTO public.journal (kind, entry)
		VALUES (lower(TG_OP) || ' ' || TG_TABLE_NAME, entry);
	END IF;
	RETURN NULL;
END $$;
CREATE FUNCTION public.write_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.ends (tx) VALUES (NEW.tx) ON CONFLICT DO NOTHING;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER write_end AFTER INSERT ON public.journal
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.write_end();
CREATE TRIGGER write_down AFTER INSERT OR DELETE ON stint.tasks
	FOR EACH ROW EXECUTE FUNCTION public.write_down();
CREATE TRIGGER write_down AFTER INSERT OR DELETE ON stint.leased
	FOR EACH ROW EXECUTE FUNCTION public.write_down();
CREATE TRIGGER write_down AFTER INSERT ON stint.finished
	FOR EACH ROW EXECUTE FUNCTION public.write_down();
CREATE TRIGGER write_down AFTER INSERT ON stint.edges
	FOR EACH ROW EXECUTE FUNCTION public.write_down()`

// emptyJournal empties the journal and all tables of tasks.
const emptyJournal = `
DO $$
BEGIN
	EXECUTE (
		SELECT 'TRUNCATE public.journal, public.ends, ' || string_agg('stint.' || tablename, ', ')
		FROM pg_tables
		WHERE schemaname = 'stint'
		  AND tablename NOT IN ('networks', 'supported', 'stint_schema_version'));
END $$`

// An entry of the journal.
type entry struct {
	tx, kind, row string

	Key, After, Run    int64
	ID                 stint.TaskID
	Action             string
	OnAbort            stint.OnAbort `json:"on_abort"`
	FinishedAt         string        `json:"finished_at"`
	Cause              int
	Claim              int64
	Completed, Aborted int
}

// What the table finished calls the ends of tasks.
const (
	endCompleted  = 0
	endReturned   = 1
	endDependency = 3
	endReplaced   = 5
)

// readJournal reads the journal, each transaction in one piece, in the order in which they ended.
func (p *play) readJournal(ctx context.Context) ([][]entry, error) {
	rows, err := p.pool.Query(ctx, `SELECT tx, kind, entry FROM public.journal
		JOIN public.ends USING (tx) ORDER BY ends.number, journal.number`)
	if err != nil {
		return nil, err
	}
	var journal [][]entry
	var tx, kind string
	var row []byte
	last := ""
	_, err = pgx.ForEachRow(rows, []any{&tx, &kind, &row}, func() error {
		e := entry{tx: tx, kind: kind, row: string(row)}
		if err := json.Unmarshal(row, &e); err != nil {
			return err
		}
		if tx != last {
			journal = append(journal, nil)
		}
		last = tx
		journal[len(journal)-1] = append(journal[len(journal)-1], e)
		return nil
	})
	return journal, err
}

// review says what was wrong with what happened.
func (p *play) review(ctx context.Context) []string {
	p.checkTables(ctx)
	journal, err := p.readJournal(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	r := &reviewer{
		play: p, tasks: map[int64]*reviewed{}, tied: map[[2]stint.TaskID]bool{},
		suspects: map[int64]bool{},
	}
	for _, transaction := range journal {
		r.touched = map[int64]bool{}
		for _, e := range transaction {
			r.apply(e)
		}
		for _, key := range slices.Sorted(maps.Keys(r.touched)) {
			r.checkTouched(r.tasks[key], transaction[0].tx)
		}
	}
	r.checkEnd()
	return append(r.faults, r.excerpt(journal)...)
}

// excerpt is what the journal has of the tasks that something is wrong with.
func (r *reviewer) excerpt(journal [][]entry) []string {
	var lines []string
	for _, transaction := range journal {
		for _, e := range transaction {
			if r.suspects[e.Key] || r.suspects[e.Run] {
				lines = append(lines, fmt.Sprintf("%s: %s %s", e.tx, e.kind, e.row))
			}
		}
	}
	return lines
}

// A reviewed task is what the journal says of one.
type reviewed struct {
	key     int64
	id      stint.TaskID
	action  string
	onAbort stint.OnAbort
	// open are the predecessors whose end it waits for; counted are those that have ended, which it
	// is told of.
	open    map[int64]bool
	counted []int64
	run     []int64
	held    bool
	final   bool
	cause   int
	// endedIn and leftIn are the transactions in which the task ended and left the store.
	endedIn, leftIn string
	finishedAt      string
	// lost are predecessors that left the store unfinished.
	lost []int64
}

// expectedInputs are those of a fetch.
type expectedInputs struct {
	handedOut

	ids  []stint.TaskID
	keys []int64 // of the tasks passed on the way
}

func (t *reviewed) aborted() bool { return t.final && t.cause != endCompleted }
func (t *reviewed) gone() bool    { return t.leftIn != "" }

// deletedIn reports whether the task left the store unfinished, and was not replaced.
func (t *reviewed) deletedIn(tx string) bool { return t.leftIn == tx && !t.final }

func (t *reviewed) joins() bool { return t.action == stint.Spontaneous }

// A reviewer goes through the journal and remembers how the tasks are.
type reviewer struct {
	*play

	tasks map[int64]*reviewed
	// touched are the tasks that a transaction may have brought into another state.
	touched map[int64]bool
	tied    map[[2]stint.TaskID]bool
	inputs  []*expectedInputs
	faults  []string
	// suspects are the tasks that faults are about.
	suspects map[int64]bool
}

func (r *reviewer) report(t *reviewed, format string, args ...any) {
	r.suspects[t.key] = true
	r.faults = append(r.faults, fmt.Sprintf("task %s (key %d) ", t.id, t.key)+
		fmt.Sprintf(format, args...))
}

func (r *reviewer) apply(e entry) {
	switch e.kind {
	case "insert tasks":
		r.tasks[e.Key] = &reviewed{
			key: e.Key, id: e.ID, action: e.Action, onAbort: e.OnAbort, open: map[int64]bool{},
		}
		r.touched[e.Key] = true
	case "delete tasks":
		t := r.tasks[e.Key]
		t.leftIn = e.tx
		r.touched[e.Key] = true
		if !t.final {
			r.untie(t)
		}
	case "insert edges":
		r.tie(r.tasks[e.After], r.tasks[e.Run])
	case "insert leased":
		r.own(r.tasks[e.Key], e)
	case "delete leased":
		r.tasks[e.Key].held = false
	case "insert finished":
		t := r.tasks[e.Key]
		if cutOut := t.final && t.finishedAt == e.FinishedAt; !cutOut { // of its span
			r.end(t, e)
		}
	}
}

// untie lets nobody wait any more for a task that leaves no signal.
func (r *reviewer) untie(t *reviewed) {
	for _, key := range t.run {
		if run := r.tasks[key]; run.open[t.key] {
			delete(run.open, t.key)
			run.lost = append(run.lost, t.key)
			r.touched[key] = true
		}
	}
}

func (r *reviewer) tie(after, run *reviewed) {
	r.tied[[2]stint.TaskID{after.id, run.id}] = true
	r.touched[run.key] = true
	if run.held || run.final {
		r.report(run, "was made to wait for %s when it had started", after.id)
	}
	after.run = append(after.run, run.key)
	if after.final {
		run.counted = append(run.counted, after.key)
		return
	}
	run.open[after.key] = true
	if r.waitsFor(after, run.key, map[int64]bool{}) {
		r.report(run, "waits for itself through %s", after.id)
	}
}

// waitsFor reports whether an unfinished task waits for another, at whatever distance.
func (r *reviewer) waitsFor(t *reviewed, key int64, seen map[int64]bool) bool {
	if t.open[key] {
		return true
	}
	for before := range t.open {
		if !seen[before] {
			seen[before] = true
			if r.waitsFor(r.tasks[before], key, seen) {
				return true
			}
		}
	}
	return false
}

func (r *reviewer) own(t *reviewed, e entry) {
	if len(t.open) > 0 || t.final || t.gone() || t.held {
		r.report(t, "was fetched while it waits for %d, final %t, gone %t, held %t",
			len(t.open), t.final, t.gone(), t.held)
	}
	t.held = true
	completed, aborted := r.told(t)
	if e.Completed != completed || e.Aborted != aborted {
		r.report(t, "was fetched with %d completed and %d aborted, want %d and %d",
			e.Completed, e.Aborted, completed, aborted)
	}
	if t.onAbort == stint.AbortToo {
		r.requireUnspoiled(t, "was fetched")
	}
	name := handedOut{t.id, e.Claim}
	if heard, ok := r.owned[name]; ok &&
		(heard.completed != completed || heard.aborted != aborted) {
		r.report(t, "has an owner who was told of %d completed and %d aborted, want %d and %d",
			heard.completed, heard.aborted, completed, aborted)
	}
	inputs := &expectedInputs{handedOut: name}
	r.collect(t, inputs, map[int64]bool{})
	r.inputs = append(r.inputs, inputs)
}

func (r *reviewer) requireUnspoiled(t *reviewed, what string) {
	for _, key := range t.counted {
		if before := r.tasks[key]; before.aborted() && t.onAbort == stint.AbortToo {
			r.report(t, "%s though %s (key %d) was aborted", what, before.id, key)
			r.suspects[key] = true
		}
	}
}

// told is how many predecessors ended how. A completed join stands for those that it was told of.
func (r *reviewer) told(t *reviewed) (completed, aborted int) {
	for _, key := range t.counted {
		switch before := r.tasks[key]; {
		case before.aborted():
			aborted++
		case before.joins():
			c, a := r.told(before)
			completed, aborted = completed+c, aborted+a
		default:
			completed++
		}
	}
	return completed, aborted
}

// collect finds the tasks whose results the owner of t is given.
func (r *reviewer) collect(t *reviewed, inputs *expectedInputs, seen map[int64]bool) {
	for _, key := range t.counted {
		before := r.tasks[key]
		if seen[key] || before.gone() {
			continue
		}
		seen[key] = true
		inputs.keys = append(inputs.keys, key)
		if before.joins() && !before.aborted() {
			r.collect(before, inputs, seen)
		} else {
			inputs.ids = append(inputs.ids, before.id)
		}
	}
}

func (r *reviewer) end(t *reviewed, e entry) {
	if t.final || t.held {
		r.report(t, "ended with cause %d when it was final %t, held %t", e.Cause, t.final, t.held)
	}
	t.final, t.cause, t.endedIn, t.finishedAt = true, e.Cause, e.tx, e.FinishedAt
	r.touched[t.key] = true
	if e.Cause == endReplaced {
		r.untie(t)
		return
	}
	for _, key := range t.run {
		if run := r.tasks[key]; run.open[t.key] {
			delete(run.open, t.key)
			run.counted = append(run.counted, t.key)
			r.touched[key] = true
		}
	}
	code, returned := r.ended[handedOut{t.id, e.Claim}]
	switch {
	case returned != (!t.joins() && e.Cause <= endReturned):
		r.report(t, "ended with cause %d, its owner's return was accepted: %t", e.Cause, returned)
	case returned && (code == stint.StatusCompleted) != (e.Cause == endCompleted):
		r.report(t, "ended with cause %d, its owner returned it as %s", e.Cause, code)
	}
}

// checkTouched looks at a task at the end of a transaction that had to do with it.
func (r *reviewer) checkTouched(t *reviewed, tx string) {
	unfinished, settled := !t.final && !t.gone(), len(t.open) == 0
	orphan := r.isAlone(t) && slices.ContainsFunc(t.lost, func(key int64) bool {
		return r.tasks[key].deletedIn(tx)
	})
	switch {
	case t.deletedIn(tx) && !r.deleted[t.id] && (!orphan || !settled):
		r.report(t, "was deleted, but nobody asked for it, and it waits for %d", len(t.open))
	case unfinished && settled && orphan:
		r.report(t, "is left with nothing to wait for, and was not deleted")
	case unfinished && settled && t.joins():
		r.report(t, "has its last signal, and is not completed")
	case t.final && t.endedIn == tx && t.cause == endCompleted && !settled:
		r.report(t, "was completed while it waits for %d", len(t.open))
	}
	if unfinished || t.final && t.endedIn == tx && t.cause == endCompleted {
		r.requireUnspoiled(t, "goes on")
	}
	spoiled := slices.ContainsFunc(t.counted, func(key int64) bool {
		return r.tasks[key].aborted()
	})
	if t.final && t.cause == endDependency && t.endedIn == tx &&
		(t.onAbort != stint.AbortToo || !spoiled) {
		r.report(t, "was aborted for a predecessor, with OnAbort %d, aborted: %t",
			t.onAbort, spoiled)
	}
}

// isAlone reports whether all predecessors of a task were deleted before they ended. One that was
// replaced by a task that names this one in turn is as that one is.
func (r *reviewer) isAlone(t *reviewed) bool {
	return len(t.counted) == 0 && !slices.ContainsFunc(t.lost, func(key int64) bool {
		replaced := r.tasks[key]
		return replaced.final && !slices.ContainsFunc(
			slices.AppendSeq(slices.Clone(t.lost), maps.Keys(t.open)), func(later int64) bool {
				return later > key && r.tasks[later].id == replaced.id
			})
	})
}

// checkEnd looks at everything when it is over.
func (r *reviewer) checkEnd() {
	for _, t := range r.tasks {
		if !t.final && !t.gone() {
			r.report(t, "did not end, it waits for %d", len(t.open))
		}
	}
	for pair := range r.edges {
		if !r.tied[pair] {
			r.faults = append(r.faults, fmt.Sprintf("edge %q was accepted and not made", pair))
		}
	}
	for pair := range r.tied {
		if !r.edges[pair] {
			r.faults = append(r.faults, fmt.Sprintf("edge %q was made unasked", pair))
		}
	}
	for _, want := range r.inputs {
		got := r.owned[want.handedOut]
		if !got.asked {
			continue
		}
		slices.Sort(got.inputs)
		slices.Sort(want.ids)
		complete := !slices.ContainsFunc(want.keys, func(key int64) bool {
			return r.tasks[key].gone()
		})
		unasked := slices.ContainsFunc(got.inputs, func(id stint.TaskID) bool {
			return !slices.Contains(want.ids, id)
		})
		repeats := len(slices.Compact(slices.Clone(got.inputs))) < len(got.inputs)
		if unasked || repeats || complete && len(got.inputs) != len(want.ids) {
			r.faults = append(r.faults, fmt.Sprintf("the inputs of %s are %q, want %q",
				want.id, got.inputs, want.ids))
		}
	}
}

// checkTables looks whether the tables fit together, at one instant.
func (p *play) checkTables(ctx context.Context) {
	found, err := p.store.Check(ctx)
	p.record("Check", err, false)
	for _, inconsistency := range found {
		p.fault("%v", inconsistency)
	}
}
