package model_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
)

// The reference counts time in steps, which are long against the run of a test. never is behind all
// of them.
const (
	step  = 30 * time.Minute
	never = int(stint.NoExpiry / step)
)

// A reference is a store in memory that one caller uses, as simple as can be: what the rules of the
// library ask for, without its reasons to be complicated. Its verbs do what those of [stint.Store]
// should, and say what they should answer.
type reference struct {
	now       int
	keep      stint.Retention
	tasks     map[stint.TaskID]*referenceTask
	keys      int
	positions int
	// rules are those of the actions that were limited or paused, nil where none ever is.
	rules map[string]*rules
}

// A referenceTask is all there is to know of a task.
type referenceTask struct {
	stint.Task
	key     int
	expires int // the absolute deadline
	state   stint.State
	cause   stint.AbortCause
	tries   int
	losses  losses
	// until is when a scheduled task is due, a lease ends, or a task has finished.
	until int
	// ownedAt is when a task in progress, or one that its owner has returned, was fetched, or given
	// back to a late owner; never if it ended otherwise.
	ownedAt int
	// Ready tasks of a priority go by position and then by place; those with both alike are of the
	// same age.
	position, place int
	// moved says that the task was ready while its action had limits, or was paused: its place in
	// the queue may be another then.
	moved bool
	// holds says that the task was fetched when its action was in strict order, and has not
	// ended since: it holds its key.
	holds bool
	// token is that of the last owner, unless the task ended without an owner's doing.
	token stint.Token
	// late says that the lease on a ready task expired, unsaid that it did on the last try, which
	// ended the task, and that the owner has not said why.
	late     bool
	unsaid   bool
	actor    stint.ActorID
	status   string
	progress float64
	result   []byte
}

func (r *reference) clone() *reference { //nolint:unused // by comparison
	copied := *r
	copied.tasks = make(map[stint.TaskID]*referenceTask, len(r.tasks))
	for id, task := range r.tasks {
		same := *task
		copied.tasks[id] = &same
	}
	return &copied
}

func (r *reference) sorted() []*referenceTask {
	ids := slices.Sorted(maps.Keys(r.tasks))
	tasks := make([]*referenceTask, len(ids))
	for i, id := range ids {
		tasks[i] = r.tasks[id]
	}
	return tasks
}

// A newTask is a task to insert, with its times in steps from now, 0 for none. It is large batches
// that go by COPY, which keeps tasks of one kind together and lets all tasks with a start wait for
// their promotion.
type newTask struct {
	stint.Task
	start, expires int
}

const copiedTasksMin = 65

func taskError(ids []stint.TaskID, err error) error {
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return &stint.TaskError{IDs: slices.Compact(ids), Err: err}
}

func (r *reference) insert(batch []newTask) error {
	seen := map[stint.TaskID]bool{}
	var taken []stint.TaskID
	for _, task := range batch {
		if seen[task.ID] || r.tasks[task.ID] != nil {
			taken = append(taken, task.ID)
		}
		seen[task.ID] = true
	}
	if len(taken) > 0 {
		return taskError(taken, stint.ErrTaskExists)
	}
	r.add(batch, len(batch) >= copiedTasksMin)
	return nil
}

// ensure returns the tasks that it leaves out.
func (r *reference) ensure(batch []newTask) (existing []stint.TaskID) {
	var missing []newTask
	seen := map[stint.TaskID]bool{}
	copied := len(batch) >= copiedTasksMin
	for _, task := range batch {
		copied = copied || task.start != 0
		if seen[task.ID] || r.tasks[task.ID] != nil {
			existing = append(existing, task.ID)
			continue
		}
		seen[task.ID] = true
		missing = append(missing, task)
	}
	r.add(missing, copied)
	return existing
}

// add adds tasks whose IDs are free, by COPY or not.
func (r *reference) add(batch []newTask, copied bool) {
	if copied {
		batch = byKind(batch)
	}
	for _, given := range batch {
		r.keys++
		r.positions++
		task := &referenceTask{
			Task: given.Task, key: r.keys, position: r.positions, state: stint.StateReady,
			expires: never,
		}
		if given.expires != 0 {
			task.expires = r.now + given.expires
		}
		if given.start > 0 || given.start < 0 && copied {
			task.state, task.until = stint.StateScheduled, r.now+given.start
		}
		r.tasks[task.ID] = task
	}
}

// byKind puts the tasks together that share a span, kinds in the order of their first tasks.
func byKind(batch []newTask) []newTask {
	kind := func(t newTask) string {
		return fmt.Sprint(t.Action, t.Priority, t.start != 0 || t.expires != 0)
	}
	first := map[string]int{}
	for i, task := range batch {
		if _, ok := first[kind(task)]; !ok {
			first[kind(task)] = i
		}
	}
	batch = slices.Clone(batch)
	slices.SortStableFunc(batch, func(a, b newTask) int {
		return first[kind(a)] - first[kind(b)]
	})
	return batch
}

func (r *reference) replace(batch []newTask) error {
	var repeated, owned []stint.TaskID
	seen := map[stint.TaskID]bool{}
	for _, task := range batch {
		if seen[task.ID] {
			repeated = append(repeated, task.ID)
		}
		seen[task.ID] = true
		if old := r.tasks[task.ID]; old != nil && old.state == stint.StateInProgress {
			owned = append(owned, task.ID)
		}
	}
	if len(repeated) > 0 {
		return taskError(repeated, stint.ErrTaskExists)
	}
	if len(owned) > 0 {
		return taskError(owned, stint.ErrTaskInProgress)
	}
	for id := range seen {
		delete(r.tasks, id)
	}
	return r.insert(batch)
}

func (r *reference) missing(ids []stint.TaskID) error {
	return taskError(slices.DeleteFunc(slices.Clone(ids), func(id stint.TaskID) bool {
		return r.tasks[id] != nil
	}), stint.ErrTaskNotFound)
}

func (r *reference) abort(ids []stint.TaskID, status string) error {
	if err := r.missing(ids); err != nil {
		return err
	}
	for _, id := range ids {
		if task := r.tasks[id]; !task.final() {
			task.disown()
			r.end(task, stint.StateAborted, stint.CauseCancelled)
			task.status = status
		}
	}
	return nil
}

func (r *reference) delete(ids []stint.TaskID) error {
	if err := r.missing(ids); err != nil {
		return err
	}
	var owned []stint.TaskID
	for _, id := range ids {
		if r.tasks[id].state == stint.StateInProgress {
			owned = append(owned, id)
		}
	}
	if len(owned) > 0 {
		return taskError(owned, stint.ErrTaskInProgress)
	}
	for _, id := range ids {
		delete(r.tasks, id)
	}
	return nil
}

func (t *referenceTask) final() bool {
	return t.state == stint.StateCompleted || t.state == stint.StateAborted
}

func (t *referenceTask) exhausted() bool { return t.MaxTries > 0 && t.tries >= t.MaxTries }

// losses are how many owners in a row have lost a task, and on which try the last one did.
type losses struct{ n, on int }

// last reports whether a task ends if it is lost on a try.
func (l losses) last(try int) bool { return l.on == try-1 && l.n >= 2 }

func (l *losses) add(try int) {
	if l.on != try-1 {
		l.n = 0
	}
	l.n, l.on = l.n+1, try
}

// undo takes back the last loss, whose owner is there after all.
func (l *losses) undo() { l.n, l.on = l.n-1, l.on-1 }

// disown takes the right to return the task from its last owner, who is known as its actor if it
// has been the owner up to now.
func (t *referenceTask) disown() {
	t.token = stint.Token{}
	if t.state != stint.StateInProgress {
		t.actor = ""
	}
}

func (r *reference) end(task *referenceTask, state stint.State, cause stint.AbortCause) {
	task.state, task.cause, task.until, task.late = state, cause, r.now, false
	task.holds = false
	task.ownedAt = never
}

// settle is what becomes of all that is due: absolute deadlines first, if they are looked at.
func (r *reference) settle(ending bool) {
	tasks := r.sorted()
	slices.SortStableFunc(tasks, func(a, b *referenceTask) int { return a.until - b.until })
	promoted := never
	for _, task := range tasks {
		switch {
		case ending && task.expires <= r.now && !task.final():
			if task.state == stint.StateInProgress && task.until <= r.now &&
				!task.exhausted() && !task.losses.last(task.tries) {
				task.state = stint.StateReady // its lease expired first
				task.sayExpired()
			}
			task.disown()
			r.end(task, stint.StateAborted, stint.CauseExpired)
		case task.state == stint.StateScheduled && task.until <= r.now:
			if task.until != promoted { // those that were due earlier go ahead
				r.positions++
				promoted = task.until
			}
			task.state, task.late = stint.StateReady, false
			task.position, task.place = r.positions, 0
		case task.state == stint.StateInProgress && task.until <= r.now &&
			(task.exhausted() || task.losses.last(task.tries)):
			if ending {
				task.sayExpired()
				cause := stint.CauseTries
				if task.losses.last(task.tries) {
					cause = stint.CauseLost
				}
				r.end(task, stint.StateAborted, cause)
				task.unsaid = true
			}
		case task.state == stint.StateInProgress && task.until <= r.now:
			task.state, task.late = stint.StateReady, true
			task.position, task.place = 0, task.key
			task.losses.add(task.tries)
			task.sayExpired()
		}
	}
	r.positions++
}

// sayExpired says in the status that the lease has expired, and how often.
func (t *referenceTask) sayExpired() {
	times, last := 1, ""
	often := t.status[strings.LastIndex(t.status, ", ")+1:]
	switch _, err := fmt.Sscanf(often, " %d times", &times); {
	case !strings.HasPrefix(t.status, "lease expired on try "):
		if times = 1; t.status != "" {
			last = "\n" + t.status
		}
	case err != nil:
		times = 2
	default:
		times++
	}
	tries := strconv.Itoa(t.tries)
	if t.MaxTries != stint.UnlimitedTries {
		tries += " of " + strconv.Itoa(cmp.Or(t.MaxTries, 25))
	}
	if often = ""; times > 1 {
		often = fmt.Sprintf(", %d times by now", times)
	}
	t.status = fmt.Sprintf("lease expired on try %s%s\nits owner %s did not extend it%s", tries,
		often, t.actor, last)
}

func (r *reference) maintain() {
	r.settle(true)
	for id, task := range r.tasks {
		age := steps(r.keep.Aborted)
		if task.state == stint.StateCompleted {
			age = steps(r.keep.Completed)
		}
		if task.PostResult {
			age = max(age, steps(time.Hour))
		}
		if task.final() && task.until+age <= r.now {
			delete(r.tasks, id)
		}
	}
}

// steps is how many steps a duration takes: none for KeepNone.
func steps(d time.Duration) int { return int(max(d, 0) / step) }

// own checks the answer of OwnTasks, since several may be right, and makes it so.
func (r *reference) own(
	actor stint.ActorID, limit int, actions []string, lease time.Duration,
	answer []stint.OwnedTask,
) error {
	ready := r.ready(actions)
	if len(ready) == 0 {
		r.settle(false)
		ready = r.ready(actions)
	}
	less := false
	for _, task := range ready {
		task.moved = task.moved || r.ruled(task.Action)
		less = less || r.ruled(task.Action)
	}
	if want := min(limit, len(ready)); len(answer) > want || len(answer) < want && !less {
		return fmt.Errorf("%d tasks, want %d", len(answer), want)
	}
	if err := r.excess(answer); err != nil {
		return err
	}
	var last *referenceTask
	for i, owned := range answer {
		task := ready[owned.ID]
		if task == nil {
			return fmt.Errorf("task %q is not ready, or comes twice", owned.ID)
		}
		delete(ready, owned.ID)
		if last != nil && task.precedes(last) {
			return fmt.Errorf("task %q comes behind %q", owned.ID, last.ID)
		}
		last = task
		if owned.Action != task.Action || string(owned.Body) != string(task.Body) ||
			!maps.Equal(owned.Headers, task.Headers) || owned.InsertedAt.IsZero() ||
			owned.Try != task.tries+1 || owned.MaxTries != task.MaxTries {
			return fmt.Errorf("task %d is %v, want %v after %d tries",
				i, owned, task.Task, task.tries)
		}
	}
	for id, task := range ready {
		if last != nil && task.precedes(last) {
			return fmt.Errorf("task %q was passed over in favour of %q", id, last.ID)
		}
	}
	for _, owned := range answer {
		task := r.tasks[owned.ID]
		task.state, task.until = stint.StateInProgress, r.leaseEnd(lease)
		task.ownedAt = r.now
		task.holds = r.rules != nil && r.of(task.Action).limits.Ordered
		task.tries++
		task.token, task.actor, task.late, task.progress = owned.Token, actor, false, 0
	}
	return nil
}

func (r *reference) leaseEnd(lease time.Duration) int {
	if lease == stint.NoExpiry {
		return never
	}
	return r.now + steps(lease)
}

func (r *reference) ready(actions []string) map[stint.TaskID]*referenceTask {
	ready := map[stint.TaskID]*referenceTask{}
	for id, task := range r.tasks {
		if task.state == stint.StateReady && task.expires > r.now &&
			slices.Contains(actions, task.Action) {
			ready[id] = task
		}
	}
	return ready
}

func (t *referenceTask) compare(other *referenceTask) int {
	return cmp.Or(cmp.Compare(other.Priority, t.Priority),
		cmp.Compare(t.position, other.position), cmp.Compare(t.place, other.place))
}

// precedes reports whether a task must be fetched ahead of another.
func (t *referenceTask) precedes(other *referenceTask) bool {
	return !t.moved && !other.moved && t.compare(other) < 0
}

// owned reports whether the token is that of the owner, be it a late one.
func (t *referenceTask) owned(token stint.Token) bool {
	return t != nil && t.token == token && (t.state == stint.StateInProgress || t.late)
}

// revive makes a late owner the owner again, whose lease is as good as expired.
func (r *reference) revive(task *referenceTask) {
	if task.late {
		task.state, task.late, task.until, task.progress = stint.StateInProgress, false, r.now, 0
		task.ownedAt = r.now
		task.losses.undo()
	}
}

func (r *reference) extend(
	actor stint.ActorID, owned []stint.OwnedTask, lease time.Duration,
) []bool {
	kept := make([]bool, len(owned))
	for i, hold := range owned {
		task := r.tasks[hold.ID]
		kept[i] = task.owned(hold.Token) && task.actor == actor &&
			(!task.late || !r.ruled(task.Action)) // its room may have gone to another
		if kept[i] {
			r.revive(task)
			task.until = max(task.until, r.leaseEnd(lease))
		}
	}
	return kept
}

func (r *reference) setStatus(
	id stint.TaskID, token stint.Token, status string, progress float64,
) error {
	task := r.tasks[id]
	if !task.owned(token) || task.late && r.ruled(task.Action) {
		return taskError([]stint.TaskID{id}, stint.ErrInvalidToken)
	}
	r.revive(task)
	task.status, task.progress = status, progress
	return nil
}

func (r *reference) returnTasks(returns []stint.Return) []error {
	r.positions++
	accepted := make([]bool, len(returns))
	for i, given := range returns {
		task := r.tasks[given.ID]
		if accepted[i] = task.owned(given.Token); accepted[i] {
			r.returnTask(task, given)
		} else if accepted[i] = task.takesLate(given); accepted[i] {
			task.status, task.unsaid = given.Status, false
		}
	}
	verdicts := make([]error, len(returns))
	for i, given := range returns {
		if !accepted[i] {
			err := r.refuse(r.tasks[given.ID], given)
			verdicts[i] = taskError([]stint.TaskID{given.ID}, err)
		}
	}
	return verdicts
}

// takesLate reports whether a return says why a task ended that the expiry of its last try ended.
func (t *referenceTask) takesLate(given stint.Return) bool {
	return t != nil && t.unsaid && t.token == given.Token &&
		given.Code == stint.StatusPending && !given.Release
}

func (r *reference) returnTask(task *referenceTask, given stint.Return) {
	if given.Status != "" || !given.Release {
		task.status = given.Status
	}
	task.result = given.Result
	ownedAt := task.ownedAt
	if task.late {
		task.losses.undo()
		ownedAt = r.now
	}
	kept := r.keep.Aborted
	switch {
	case given.Code == stint.StatusCompleted:
		r.end(task, stint.StateCompleted, "")
		kept = r.keep.Completed
	case given.Code == stint.StatusAborted:
		r.end(task, stint.StateAborted, stint.CauseReturned)
	case task.exhausted() && !given.Release:
		r.end(task, stint.StateAborted, stint.CauseTries)
	default:
		task.state, task.late = stint.StateReady, false
		task.position, task.place = r.positions, 0
		if given.RetryAfter > 0 {
			task.state, task.until = stint.StateScheduled, r.now+steps(given.RetryAfter)
		}
		if given.Release {
			task.tries--
		}
	}
	task.ownedAt = ownedAt
	if task.final() && kept == stint.KeepNone && !task.PostResult {
		delete(r.tasks, task.ID)
	}
}

// refuse says why a return is refused.
func (r *reference) refuse(task *referenceTask, given stint.Return) error {
	if task == nil {
		return fmt.Errorf("%w: %w", stint.ErrInvalidToken, stint.ErrTaskNotFound)
	}
	same := task.token == given.Token && !task.unsaid
	switch {
	case task.state == stint.StateCompleted:
		same = same && given.Code == stint.StatusCompleted
	case task.cause == stint.CauseReturned:
		same = same && given.Code == stint.StatusAborted
	case task.cause == stint.CauseTries, task.cause == stint.CauseLost:
		same = same && given.Code == stint.StatusPending && !given.Release
	default:
		same = same && given.Code == stint.StatusPending
	}
	if same {
		return stint.ErrAlreadyReturned
	}
	return stint.ErrInvalidToken
}
