package model_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stint-tasks/stint"
)

// A netReference is what R2 to R5, R12, R14, R16, R17 and R23 ask for, as simple as can be: after
// each verb it looks at all tasks again and again until nothing follows any more.
type netReference struct {
	tasks map[stint.TaskID]*netTask
}

type netTask struct {
	stint.Task
	early bool // NotBefore, or RetryAfter, is ahead

	state stint.State // pending, in progress or final; place tells more
	cause stint.AbortCause
	tries int
	token stint.Token

	losses losses
	late   bool // its lease expired, and nobody else was given it
	// unsaid says that the expiry of its last try ended it, and its owner has not said why.
	unsaid bool

	// after are the tasks in the store that it was told to wait for, and whether it has their
	// signals.
	after map[stint.TaskID]bool
	told  signals

	// conditions are those of edges in after. any says that the first to be met starts the task,
	// and chosen that one has.
	conditions  map[stint.TaskID]stint.Condition
	into        map[stint.TaskID]stint.Condition // of edges in ToSignalAfter
	any, chosen bool
	passed      int    // how many of several were aborted
	result      string // returned

	// Of predecessors that have left the store, held says that one without a condition had ended,
	// or was replaced; met and unmet are how many conditions were met, and were not, or never will.
	held       bool
	met, unmet int
	// open says that it is to be decided what becomes of the task, orphaned that a predecessor was
	// deleted just now, before it ended.
	open, orphaned bool
}

// states returns the states of all tasks.
func (r *netReference) states() map[stint.TaskID]stint.State {
	states := make(map[stint.TaskID]stint.State, len(r.tasks))
	for id, task := range r.tasks {
		states[id] = task.state
	}
	return states
}

// signals are how many predecessors ended how.
type signals struct{ completed, aborted int }

const statePending = stint.State("")

func (r *netReference) clone() *netReference {
	copied := &netReference{tasks: map[stint.TaskID]*netTask{}}
	for id, task := range r.tasks {
		same := *task
		same.after, same.conditions = maps.Clone(task.after), maps.Clone(task.conditions)
		copied.tasks[id] = &same
	}
	return copied
}

func (r *netReference) ids() []stint.TaskID { return slices.Sorted(maps.Keys(r.tasks)) }

func (t *netTask) final() bool {
	return t.state == stint.StateCompleted || t.state == stint.StateAborted ||
		t.state == stint.StateSkipped
}

// started reports whether the task cannot be made to wait any more.
func (t *netTask) started() bool { return t.state != statePending || t.late }

func (t *netTask) joins() bool { return t.Action == stint.Spontaneous }

// waits reports whether signals are missing.
func (t *netTask) waits() bool {
	if t.chosen {
		return false
	}
	for _, taken := range t.after {
		if !taken {
			return true
		}
	}
	return false
}

// place is the state that people see.
func (t *netTask) place() stint.State {
	switch {
	case t.state != statePending:
		return t.state
	case t.waits():
		return stint.StateBlocked
	case t.early:
		return stint.StateScheduled
	default:
		return stint.StateReady
	}
}

// verdicts are errors of which a verb may choose one, where the rules do not say which goes first;
// none is no error.
type verdicts []error

func (v *verdicts) add(ids []stint.TaskID, err error) {
	if about := taskError(ids, err); about != nil {
		*v = append(*v, about)
	}
}

// insert inserts tasks. Replaced are those that it takes the place of.
func (r *netReference) insert(batch []netTask, replace bool) verdicts {
	var wrong verdicts
	var taken, owned []stint.TaskID
	seen := map[stint.TaskID]bool{}
	for i := range batch {
		id := batch[i].ID
		old := r.tasks[id]
		if seen[id] || old != nil && !replace {
			taken = append(taken, id)
		}
		if old != nil && replace && old.state == stint.StateInProgress {
			owned = append(owned, id)
		}
		seen[id] = true
	}
	if wrong.add(taken, stint.ErrTaskExists); len(wrong) > 0 {
		// R1: this goes first, which makes an insert safe to repeat. But a cycle of edges that the
		// call names shows without a look at the store; no such call was ever accepted.
		if cyclicAlone(batch) {
			wrong = append(wrong, stint.ErrCycle)
		}
		if !aloneIn(batch) {
			wrong = append(wrong, errAny)
		}
		return wrong
	}
	wrong.add(owned, stint.ErrTaskInProgress)
	next := r.clone()
	next.put(batch)
	next.setConditions(batch)
	var missing, started []stint.TaskID
	alone := true // no task that the first of several starts is to wait for another, too
	tie := func(after, run stint.TaskID) {
		switch before, task := next.tasks[after], next.tasks[run]; {
		case before == nil:
			missing = append(missing, after)
		case task == nil:
			missing = append(missing, run)
		case task.started():
			started = append(started, run)
		default:
			if _, ok := task.after[after]; !ok {
				task.after[after] = false
				_, conditional := task.conditions[after]
				alone = alone && (!task.any || conditional)
			}
		}
	}
	for _, pair := range batchEdges(batch) {
		tie(pair.Predecessor, pair.Dependent)
	}
	wrong.add(missing, stint.ErrTaskNotFound)
	wrong.add(started, stint.ErrTaskStarted)
	if !alone || !aloneIn(batch) {
		wrong = append(wrong, errAny)
	}
	if next.cyclic() || cyclicAlone(batch) {
		wrong = append(wrong, stint.ErrCycle)
	}
	if len(wrong) == 0 {
		next.follow()
		r.tasks = next.tasks
	}
	return wrong
}

// put puts the tasks of a batch in the place of those with their IDs, without edges.
func (r *netReference) put(batch []netTask) {
	for i := range batch {
		if r.tasks[batch[i].ID] != nil {
			r.handOver(batch, i)
			r.leave(batch[i].ID, false)
		}
	}
	for i := range batch {
		task := batch[i]
		task.open = true
		task.after, task.any = map[stint.TaskID]bool{}, len(task.WhenAny) > 0
		task.conditions = map[stint.TaskID]stint.Condition{}
		r.tasks[task.ID] = &task
	}
}

// setConditions notes the conditions that a batch names; those of its own tasks come before others.
func (r *netReference) setConditions(batch []netTask) {
	for i := range batch {
		for id, condition := range batch[i].into {
			if task := r.tasks[id]; task != nil && !task.waitsOnce(batch[i].ID) {
				task.conditions[batch[i].ID] = condition
			}
		}
	}
	for i := range batch {
		for _, condition := range slices.Concat(batch[i].When, batch[i].WhenAny) {
			r.tasks[batch[i].ID].conditions[condition.After] = condition
		}
	}
}

// toAdd returns the tasks of a batch that EnsureTasks adds, with all edges that it names between
// one of these and whatever task, and the IDs of the others.
func (r *netReference) toAdd(batch []netTask) (missing []netTask, left []stint.TaskID) {
	places := map[stint.TaskID]int{}
	for _, task := range batch {
		if _, again := places[task.ID]; again || r.tasks[task.ID] != nil {
			left = append(left, task.ID)
			continue
		}
		task.After, task.ToSignalAfter = nil, nil
		places[task.ID] = len(missing)
		missing = append(missing, task)
	}
	for i := range batch {
		task := &batch[i]
		if _, added := places[task.ID]; added && slices.IndexFunc(batch, task.isTwin) != i {
			continue // as in a call of its own, where nothing else is added
		}
		for _, edge := range task.edges() {
			if i, ok := places[edge.Dependent]; ok {
				missing[i].After = append(missing[i].After, edge.Predecessor)
			} else if i, ok := places[edge.Predecessor]; ok {
				missing[i].ToSignalAfter = append(missing[i].ToSignalAfter, edge.Dependent)
			}
		}
		if r.tasks[task.ID] == nil {
			continue // it is added, with its conditions
		}
		for _, condition := range task.When {
			if i, ok := places[condition.After]; ok {
				missing[i].ToSignalAfter = append(missing[i].ToSignalAfter, task.ID)
				if missing[i].into == nil {
					missing[i].into = map[stint.TaskID]stint.Condition{}
				}
				missing[i].into[task.ID] = condition
			}
		}
	}
	return missing, left
}

// isTwin reports whether a task has the same ID.
func (t *netTask) isTwin(other netTask) bool { return t.ID == other.ID }

// edges are those that the task names without a condition.
func (t *netTask) edges() (edges []stint.Dependency) {
	for _, id := range t.After {
		edges = append(edges, stint.Dependency{Predecessor: id, Dependent: t.ID})
	}
	for _, id := range t.ToSignalAfter {
		edges = append(edges, stint.Dependency{Predecessor: t.ID, Dependent: id})
	}
	return edges
}

// aloneIn reports whether no task of a batch names one in ToSignalAfter that the first of several
// starts.
func aloneIn(batch []netTask) bool {
	for i := range batch {
		for j := range batch {
			if len(batch[i].WhenAny) == 0 || !slices.Contains(batch[j].ToSignalAfter, batch[i].ID) {
				continue
			}
			if !slices.ContainsFunc(batch[i].WhenAny, func(condition stint.Condition) bool {
				return condition.After == batch[j].ID
			}) {
				return false
			}
		}
	}
	return true
}

// cyclicAlone reports whether the edges that a batch names form a cycle.
func cyclicAlone(batch []netTask) bool {
	alone := &netReference{tasks: map[stint.TaskID]*netTask{}}
	for _, pair := range batchEdges(batch) {
		for _, id := range []stint.TaskID{pair.Predecessor, pair.Dependent} {
			if alone.tasks[id] == nil {
				alone.tasks[id] = &netTask{after: map[stint.TaskID]bool{}}
			}
		}
		alone.tasks[pair.Dependent].after[pair.Predecessor] = false
	}
	return alone.cyclic()
}

// cyclic reports whether tasks wait for each other: whether, of those that wait, some are left when
// one after the other all have ended that can.
func (r *netReference) cyclic() bool {
	left := map[stint.TaskID]*netTask{}
	for id, task := range r.tasks {
		if !task.final() {
			left[id] = task
		}
	}
	for ended := true; ended; {
		ended = false
		for id, task := range left {
			waits := false
			for before := range task.after {
				waits = waits || !task.chosen && left[before] != nil
			}
			if !waits {
				delete(left, id)
				ended = true
			}
		}
	}
	return len(left) > 0
}

// addDependencies returns the refusals, or whether there would be a cycle, or a task that the first
// of several starts would wait for another.
func (r *netReference) addDependencies(
	wanted []stint.Dependency,
) (refused []stint.RefusedDependency, cyclic, toAny bool) {
	next := r.clone()
	for _, pair := range wanted {
		if run := r.tasks[pair.Dependent]; run != nil && run.any && !run.started() {
			isLoop := func(pair stint.Dependency) bool { return pair.Predecessor == pair.Dependent }
			return nil, slices.ContainsFunc(wanted, isLoop), true
		}
	}
	for _, pair := range wanted {
		after, run := r.tasks[pair.Predecessor], r.tasks[pair.Dependent]
		refusal := stint.RefusedDependency{
			Dependency: pair, PredecessorState: after.found(), DependentState: run.found(),
		}
		switch {
		case pair.Predecessor == pair.Dependent:
			cyclic = true
			continue
		case after == nil || run == nil:
			refusal.Err = stint.ErrTaskNotFound
		case run.waitsOnce(pair.Predecessor):
			continue
		case after.final():
			refusal.Err = stint.ErrTaskFinished
		case run.started():
			refusal.Err = stint.ErrTaskStarted
		default:
			next.tasks[pair.Dependent].after[pair.Predecessor] = false
			continue
		}
		if !slices.Contains(refused, refusal) {
			refused = append(refused, refusal)
		}
	}
	cyclic = cyclic || next.cyclic()
	if len(refused) == 0 && !cyclic {
		r.tasks = next.tasks
	}
	return refused, cyclic, false
}

func (t *netTask) waitsOnce(id stint.TaskID) bool {
	_, ok := t.after[id]
	return ok
}

// found is the state of a task that a refusal tells of. To have started is what counts there.
func (t *netTask) found() stint.State {
	switch {
	case t == nil:
		return ""
	case t.late:
		return stint.StateInProgress
	default:
		return t.place()
	}
}

func (r *netReference) missing(ids []stint.TaskID) (missing []stint.TaskID) {
	for _, id := range ids {
		if r.tasks[id] == nil {
			missing = append(missing, id)
		}
	}
	return missing
}

func (r *netReference) abort(ids []stint.TaskID) verdicts {
	var wrong verdicts
	if wrong.add(r.missing(ids), stint.ErrTaskNotFound); len(wrong) > 0 {
		return wrong
	}
	for _, id := range ids {
		if task := r.tasks[id]; !task.final() {
			task.end(stint.StateAborted, stint.CauseCancelled)
			task.token = stint.Token{}
		}
	}
	r.follow()
	return nil
}

func (t *netTask) end(state stint.State, cause stint.AbortCause) {
	t.state, t.cause, t.late, t.unsaid = state, cause, false, false
}

func (r *netReference) delete(ids []stint.TaskID) verdicts {
	var wrong verdicts
	var owned []stint.TaskID
	for _, id := range ids {
		if task := r.tasks[id]; task != nil && task.state == stint.StateInProgress {
			owned = append(owned, id)
		}
	}
	wrong.add(r.missing(ids), stint.ErrTaskNotFound)
	wrong.add(owned, stint.ErrTaskInProgress)
	if len(wrong) > 0 {
		return wrong
	}
	for _, id := range ids {
		if r.tasks[id] != nil { // not named twice
			r.leave(id, true)
		}
	}
	r.follow()
	return nil
}

// own checks the answer of OwnTasks, since several may be right, and makes it so.
func (r *netReference) own(limit int, answer []stint.OwnedTask) error {
	ready := map[stint.TaskID]*netTask{}
	for id, task := range r.tasks {
		if task.place() == stint.StateReady {
			ready[id] = task
		}
	}
	if want := min(limit, len(ready)); len(answer) != want {
		return fmt.Errorf("%d tasks, want %d of %q", len(answer), want,
			slices.Sorted(maps.Keys(ready)))
	}
	for _, owned := range answer {
		task := ready[owned.ID]
		if task == nil {
			return fmt.Errorf("task %q is not ready, or comes twice", owned.ID)
		}
		delete(ready, owned.ID)
		task.tries++
		if got := (signals{owned.Completed, owned.Aborted}); got != task.told ||
			owned.Try != task.tries {
			return fmt.Errorf("task %q is told of %v at try %d, want %v at try %d",
				owned.ID, got, owned.Try, task.told, task.tries)
		}
		task.state, task.late, task.token = stint.StateInProgress, false, owned.Token
	}
	for id, task := range ready {
		for _, owned := range answer {
			if task.Priority > r.tasks[owned.ID].Priority {
				return fmt.Errorf("task %q was passed over in favour of %q", id, owned.ID)
			}
		}
	}
	return nil
}

// owns reports whether the token is that of the owner, be it a late one.
func (t *netTask) owns(token stint.Token) bool {
	return t != nil && t.token == token && (t.state == stint.StateInProgress || t.late)
}

func (r *netReference) returnTasks(returns []stint.Return) (accepted []bool) {
	accepted = make([]bool, len(returns))
	for i, given := range returns {
		task := r.tasks[given.ID]
		if accepted[i] = task.owns(given.Token); accepted[i] {
			task.settle(given)
		} else if task.takesLate(given) {
			accepted[i], task.unsaid = true, false
		}
	}
	r.follow()
	return accepted
}

// takesLate reports whether a return says why a task ended that the expiry of its last try ended.
func (t *netTask) takesLate(given stint.Return) bool {
	return t != nil && t.unsaid && t.token == given.Token &&
		given.Code == stint.StatusPending && !given.Release
}

func (t *netTask) settle(given stint.Return) {
	if t.late {
		t.losses.undo()
	}
	t.late = false
	switch {
	case given.Code == stint.StatusCompleted:
		t.result = string(given.Result)
		t.end(stint.StateCompleted, "")
	case given.Code == stint.StatusAborted:
		t.end(stint.StateAborted, stint.CauseReturned)
	case given.Release:
		t.state, t.early, t.tries = statePending, given.RetryAfter > 0, t.tries-1
	case t.MaxTries > 0 && t.tries >= t.MaxTries:
		t.end(stint.StateAborted, stint.CauseTries)
	default:
		t.state, t.early = statePending, given.RetryAfter > 0
	}
}

// expire lets all leases expire.
func (r *netReference) expire() {
	for _, task := range r.tasks {
		switch {
		case task.state != stint.StateInProgress:
		case task.losses.last(task.tries):
			task.end(stint.StateAborted, stint.CauseLost)
			task.unsaid = true
		case task.MaxTries > 0 && task.tries >= task.MaxTries:
			task.end(stint.StateAborted, stint.CauseTries)
			task.unsaid = true
		default:
			task.state, task.late = statePending, true
			task.losses.add(task.tries)
		}
	}
	r.follow()
}

// passTime lets the time come that tasks wait for.
func (r *netReference) passTime() {
	for _, task := range r.tasks {
		task.early = false
	}
	r.follow()
}

// inputs are the tasks whose results the owner of a task is given.
func (r *netReference) inputs(task *netTask) []stint.TaskID {
	found, seen := []stint.TaskID{}, map[stint.TaskID]bool{}
	next := slices.Collect(maps.Keys(task.after))
	for len(next) > 0 {
		id := next[0]
		next = next[1:]
		before := r.tasks[id]
		switch {
		case seen[id], !before.final(): // of several, the first has started the task
		case before.joins() && before.state == stint.StateCompleted:
			next = slices.AppendSeq(next, maps.Keys(before.after))
		default:
			found = append(found, id)
		}
		seen[id] = true
	}
	slices.Sort(found)
	return found
}
