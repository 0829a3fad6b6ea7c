package service

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service/access"
	"github.com/stint-tasks/stint/shards"
)

// A policy says who may make the calls of a procedure. A procedure without one cannot be called.
type policy struct {
	// may returns an error if the principal must not make this call. A stream is asked about each
	// message that it receives.
	may func(a *asking, request any) error
	// trim takes out of an answer what the principal must not see; nil if there is nothing.
	trim func(a *asking, answer any)
}

// An asking is a call of a principal.
type asking struct {
	ctx       context.Context //nolint:containedctx // of this call
	principal *access.Principal
	store     *stint.Store

	// absent are tasks of the call that the principal must not learn of: the answer has them as
	// missing. foundOnly says that this is no error.
	absent    []stint.TaskID
	foundOnly bool
	// promptly says that returns are not to wait.
	promptly bool
	// most is how many items of a kind the caller wants.
	most int

	// streamed are the tasks that earlier messages of a stream insert, by hashes of their IDs. They
	// are not stored before the stream has ended.
	streamed map[uint64]struct{}
	// linked are those that the messages of a stream name otherwise, which errors may name, too.
	linked map[uint64]struct{}
	seed   maphash.Seed // of the hashes, which nobody can choose then
}

// streamedMax is how many tasks of a stream are remembered, and of linked ones: about 20 MB each.
const streamedMax = 1 << 20

// on makes a policy's function of one for the messages of a procedure.
func on[M any](may func(a *asking, request M) error) func(a *asking, request any) error {
	return func(a *asking, request any) error {
		message, ok := request.(M)
		if !ok {
			return fmt.Errorf("%T is no message of this procedure", request)
		}
		return may(a, message)
	}
}

// trimming is on for answers.
func trimming[M any](trim func(a *asking, answer M)) func(a *asking, answer any) {
	return func(a *asking, answer any) {
		if message, ok := answer.(M); ok {
			trim(a, message)
		}
	}
}

// mayNot is the error of a call that is not allowed.
func (a *asking) mayNot(format string, args ...any) error {
	return fmt.Errorf("%w: %q may not %s", stint.ErrRefused, a.principal.Name,
		fmt.Sprintf(format, args...))
}

// mayChange is may for verbs that end tasks or open them, or make tasks wait for others: there, a
// task that is not stored yet must not be left to the verb, which begins later.
func (a *asking) mayChange(verb access.Verb, ids []string) error {
	missing, err := a.missing(verb, ids)
	if err == nil && len(missing) > 0 {
		return &stint.TaskError{IDs: uniqueIDs(missing), Err: stint.ErrTaskNotFound}
	}
	return err
}

// missing returns the tasks that are not stored, as far as their IDs do not decide, and those on
// which the principal may not do something, because of their actions: as if they were not stored,
// so that nobody learns of their IDs. It returns an error if the principal may not do it on an ID,
// whatever is stored.
func (a *asking) missing(verb access.Verb, ids []string) (missing []stint.TaskID, err error) {
	unsure := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return a.principal.MayByID(verb, id)
	})
	never := slices.IndexFunc(unsure, func(id string) bool {
		return !a.principal.MayEver(verb, id)
	})
	switch {
	case !a.principal.Has(verb):
		return nil, a.mayNot("%s tasks", verb)
	case never >= 0:
		return nil, a.mayNot("%s task %q", verb, unsure[never])
	case len(unsure) == 0:
		return nil, nil
	case len(unsure) > itemsMax:
		return nil, errItems()
	}
	actions, err := a.store.Remote().FindActions(a.ctx, wire.ToIDs(unsure))
	if err != nil {
		return nil, err
	}
	for _, id := range unsure {
		action, stored := actions[stint.TaskID(id)]
		if !stored || !a.principal.May(verb, action, id) {
			missing = append(missing, stint.TaskID(id))
		}
	}
	return missing, nil
}

// mayGet asks for the tasks only that the principal may read, and notes the others as absent.
func (a *asking) mayGet(r *stintv1.GetTasksRequest) (err error) {
	if a.absent, err = a.missing(access.Read, r.GetIds()); err != nil {
		return err
	}
	absent := make(map[string]bool, len(a.absent))
	for _, id := range a.absent {
		absent[string(id)] = true
	}
	a.foundOnly = r.GetFoundOnly()
	r.Ids = slices.DeleteFunc(r.GetIds(), func(id string) bool { return absent[id] })
	return nil
}

// mayTakeOver returns an error unless the principal may end the stored tasks whose IDs it wants to
// give to others. That an ID is taken cannot be kept from whoever may insert tasks with it.
func (a *asking) mayTakeOver(ids []string) error {
	var unsure []string
	for _, id := range ids {
		if !a.principal.MayByID(access.Control, id) {
			unsure = append(unsure, id)
		}
	}
	switch {
	case !a.principal.Has(access.Control):
		return a.mayNot("%s tasks", access.Control)
	case len(unsure) == 0:
		return nil
	case len(unsure) > itemsMax:
		return errItems()
	}
	actions, err := a.store.Remote().FindActions(a.ctx, wire.ToIDs(unsure))
	if err != nil {
		return err
	}
	for _, id := range unsure {
		action, stored := actions[stint.TaskID(id)]
		if stored && !a.principal.May(access.Control, action, id) {
			return a.mayNot("%s task %q", access.Control, id)
		}
	}
	return nil
}

// mayInsert returns an error unless the principal may insert tasks, read those stored tasks that
// they wait for, and control those that are made to wait.
func (a *asking) mayInsert(tasks []*stintv1.Task) error {
	if err := a.mayInsertAll(tasks); err != nil {
		return err
	}
	inserted := make(map[string]bool, len(tasks))
	var after, before []string
	for _, task := range tasks {
		inserted[task.GetId()] = true
		after = append(after, wire.PredecessorsOf(task)...)
		before = append(before, task.GetToSignalAfter()...)
	}
	known := func(id string) bool { return inserted[id] || a.hasStreamed(id) }
	return a.mayLink(slices.DeleteFunc(after, known), slices.DeleteFunc(before, known))
}

// mayInsertAll returns an error unless the principal may insert tasks, whatever they wait for.
func (a *asking) mayInsertAll(tasks []*stintv1.Task) error {
	if !a.principal.Has(access.Insert) {
		return a.mayNot("%s tasks", access.Insert)
	}
	for _, task := range tasks {
		if !a.mayFailFast(task) {
			return a.mayNot("%s task %q with fail_fast, which aborts others: it needs %s of all "+
				"that it may %s", access.Insert, task.GetId(), access.Control, access.ReadBodies)
		}
		if !a.mayInsertOne(task) {
			return a.mayNot("%s task %q with action %q", access.Insert, task.GetId(),
				task.GetAction())
		}
	}
	return nil
}

// mayInsertOne reports whether the principal may insert a task, whatever it waits for. Relays do to
// other tasks what the tasks of clusters say, and believe them: these are for those who may control
// what relays perform.
func (a *asking) mayInsertOne(task *stintv1.Task) bool {
	action, id := task.GetAction(), task.GetId()
	return a.principal.May(access.Insert, action, id) && a.mayFailFast(task) &&
		(!shards.IsOwnAction(action) || shards.IsOwn(stint.TaskID(id))) && a.mayBeRelay(action, id)
}

// mayFailFast reports whether the principal may have a task abort what only this one needs: those
// are tasks that it waits for, now or later, if only through others. So whoever may make tasks wait
// for a task must be allowed to abort it.
func (a *asking) mayFailFast(task *stintv1.Task) bool {
	return !task.GetFailFast() || a.principal.MayWherever(access.Control, access.ReadBodies)
}

// mayBeRelay reports whether the principal may do with a task what clusters do with their own: only
// whoever may control what relays perform may make such a task, or end it as if it were a relay.
func (a *asking) mayBeRelay(action, id string) bool {
	switch {
	case shards.IsOwnAction(action):
		return a.principal.May(access.Control, action, id)
	case shards.IsOwn(stint.TaskID(id)):
		return a.principal.May(access.Control, shards.RelayAction, id)
	}
	return true
}

// mayInsertNext is mayInsert for the next message of a stream, which is judged as if it had all
// messages before, as far as they are remembered.
func (a *asking) mayInsertNext(r *stintv1.InsertTasksFromRequest) error {
	if a.streamed == nil {
		a.streamed, a.linked = map[uint64]struct{}{}, map[uint64]struct{}{}
		a.seed = maphash.MakeSeed()
	}
	for _, task := range r.GetTasks() {
		a.remember(a.linked, wire.PredecessorsOf(task)...)
		a.remember(a.linked, task.GetToSignalAfter()...)
	}
	if err := a.mayInsert(r.GetTasks()); err != nil {
		return err
	}
	for _, task := range r.GetTasks() {
		a.remember(a.streamed, task.GetId())
	}
	return nil
}

func (a *asking) remember(into map[uint64]struct{}, ids ...string) {
	for _, id := range ids {
		if len(into) < streamedMax {
			into[maphash.String(a.seed, id)] = struct{}{}
		}
	}
}

func (a *asking) hasStreamed(id string) bool { return a.remembers(a.streamed, id) }

func (a *asking) remembers(ids map[uint64]struct{}, id string) bool {
	if ids == nil {
		return false
	}
	_, has := ids[maphash.String(a.seed, id)]
	return has
}

// mayLink returns an error unless the principal may make dependents wait for predecessors: whoever
// owns the dependents is given the results of the predecessors.
func (a *asking) mayLink(predecessors, dependents []string) error {
	if len(predecessors) > 0 {
		if err := a.mayChange(access.ReadBodies, predecessors); err != nil {
			return err
		}
	}
	if len(dependents) > 0 {
		return a.mayChange(access.Control, dependents)
	}
	return nil
}

// mayEnsure is mayInsert for tasks some of which may be there. Whether they are is looked at now,
// so that the verb tells nothing of tasks that the principal may not link, and once more by whoever
// has ensured them.
func (a *asking) mayEnsure(tasks []*stintv1.Task) error {
	if err := a.mayInsertAll(tasks); err != nil {
		return err
	}
	inCall, linked := map[string]bool{}, map[string]bool{}
	for _, task := range tasks {
		inCall[task.GetId()] = true
		for _, id := range slices.Concat(wire.PredecessorsOf(task), task.GetToSignalAfter()) {
			linked[id], linked[task.GetId()] = true, true
		}
	}
	var named []stint.TaskID
	for id := range inCall {
		if id != "" && linked[id] {
			named = append(named, stint.TaskID(id))
		}
	}
	if len(named) > itemsMax {
		return errItems()
	}
	stored, err := a.store.Remote().FindActions(a.ctx, named)
	if err != nil {
		return err
	}
	return a.mayLinkEnsured(tasks, func(id string) bool {
		_, there := stored[stint.TaskID(id)]
		return inCall[id] && !there
	})
}

// mayLinkEnsured returns an error unless the principal may link tasks that are added to those that
// are there, which may be in the same call.
func (a *asking) mayLinkEnsured(tasks []*stintv1.Task, isAdded func(id string) bool) error {
	var predecessors, dependents []string
	link := func(after, run string) {
		switch added, follows := isAdded(after), isAdded(run); {
		case follows && !added:
			predecessors = append(predecessors, after)
		case added && !follows:
			dependents = append(dependents, run)
		}
	}
	for _, task := range tasks {
		for _, id := range wire.PredecessorsOf(task) {
			link(id, task.GetId())
		}
		for _, id := range task.GetToSignalAfter() {
			link(task.GetId(), id)
		}
	}
	return a.mayLink(predecessors, dependents)
}

func (a *asking) mayReplace(tasks []*stintv1.Task) error {
	ids := make([]string, len(tasks))
	for i, task := range tasks {
		ids[i] = task.GetId()
	}
	if err := a.mayInsert(tasks); err != nil {
		return err
	}
	return a.mayTakeOver(ids)
}

// mayDebounce returns an error unless the principal may replace the task, and the one that runs
// after it.
func (a *asking) mayDebounce(r *stintv1.DebounceRequest) error {
	for _, suffix := range []string{"", "+"} {
		task := proto.CloneOf(r.GetTask())
		if task == nil {
			task = &stintv1.Task{}
		}
		task.Id += suffix
		if err := a.mayReplace([]*stintv1.Task{task}); err != nil {
			return err
		}
	}
	return nil
}

func (a *asking) mayDebounceAll(requests []*stintv1.DebounceRequest) error {
	for _, r := range requests {
		if err := a.mayDebounce(r); err != nil {
			return err
		}
	}
	return nil
}

func (a *asking) mayDepend(dependencies []*stintv1.Dependency) error {
	var predecessors, dependents []string
	for _, d := range dependencies {
		predecessors = append(predecessors, d.GetPredecessor())
		dependents = append(dependents, d.GetDependent())
	}
	if len(dependencies) == 0 && !a.principal.Has(access.Control) {
		return a.mayNot("%s tasks", access.Control)
	}
	return a.mayLink(predecessors, dependents)
}

// mayOwn returns an error unless the principal may own tasks of these actions for an actor.
func (a *asking) mayOwn(actor string, actions []string) error {
	switch {
	case a.principal.MayOwn(actor, actions):
		return nil
	case len(actions) == 0:
		return a.mayNot("%s tasks as actor %q", access.Own, actor)
	default:
		return a.mayNot("%s tasks with actions %q as actor %q", access.Own, actions, actor)
	}
}

// has returns an error unless the principal may do something on some tasks, which tokens name.
func (a *asking) has(verb access.Verb) error {
	if !a.principal.Has(verb) {
		return a.mayNot("%s tasks", verb)
	}
	return nil
}

// mayControl is mayChange, also for no tasks.
func (a *asking) mayControl(ids []string) error {
	if err := a.has(access.Control); err != nil {
		return err
	}
	return a.mayChange(access.Control, ids)
}

// mayAnswer returns an error unless the principal may answer all these tasks as the actor.
func (a *asking) mayAnswer(r *stintv1.AnswerTasksRequest) error {
	ids := make([]string, len(r.GetAnswers()))
	for i, answer := range r.GetAnswers() {
		ids[i] = answer.GetId()
	}
	if !a.principal.MayAnswer(r.GetActor()) {
		return a.mayNot("%s tasks as actor %q", access.Answer, r.GetActor())
	}
	for _, id := range ids {
		if !a.mayBeRelay(stint.External, id) {
			return a.mayNot("%s task %q, which is one of a cluster's own", access.Answer, id)
		}
	}
	as := *a // a grant for another actor does not count
	as.principal = a.principal.As(r.GetActor())
	return as.mayChange(access.Answer, ids)
}

// mayList returns an error unless the principal may see every task that a list may have, and the
// bodies of these if it searches in bodies, which would tell what they are. A list that names no
// actions is one of those of which the principal may, if a grant names them.
func (a *asking) mayList(r *stintv1.ListTasksRequest) error {
	verb := access.Read
	if r.GetBody() != "" {
		verb = access.ReadBodies
	}
	if a.principal.MayList(verb, r.GetActions(), r.GetIdPrefix()) {
		return nil
	}
	if !a.principal.Has(verb) {
		return a.mayNot("%s tasks", verb)
	}
	if names, ok := a.principal.ActionsOf(verb); ok && len(r.GetActions()) == 0 {
		r.Actions = names
		return nil
	}
	return a.mayNot("list all these tasks: name actions, and an id_prefix, whose tasks it may %s",
		verb)
}

func (a *asking) mayTransact(r *stintv1.TransactRequest) error {
	type part struct {
		items int
		may   func() error
	}
	inserted := map[string]bool{}
	for _, task := range r.GetInsert() {
		inserted[task.GetId()] = true
	}
	control := func(ids []string) part {
		ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return inserted[id] })
		return part{len(ids), func() error { return a.mayChange(access.Control, ids) }}
	}
	for _, p := range []part{
		{len(r.GetHold()) + len(r.GetReturn()), func() error { return a.has(access.Own) }},
		{len(r.GetMustExist()), func() error {
			return a.mayChange(access.Read, r.GetMustExist())
		}},
		{len(r.GetInsert()), func() error { return a.mayInsert(r.GetInsert()) }},
		{len(r.GetReplace()), func() error { return a.mayReplace(r.GetReplace()) }},
		{len(r.GetDebounce()), func() error { return a.mayDebounceAll(r.GetDebounce()) }},
		{len(r.GetDepend()), func() error { return a.mayDepend(r.GetDepend()) }},
		control(r.GetChange()), control(r.GetRetry()), control(r.GetAbort()),
		control(r.GetDelete()),
		{len(r.GetAsSeen().GetTasks()), func() error { return a.has(access.Control) }},
	} {
		if p.items == 0 {
			continue
		}
		if err := p.may(); err != nil {
			return err
		}
	}
	return nil
}

// sees reports whether the principal may see a task.
func (a *asking) sees(task *stintv1.TaskInfo) bool {
	return a.principal.May(access.Read, task.GetAction(), task.GetId())
}

// seen returns the tasks that the principal may see.
func (a *asking) seen(tasks []*stintv1.TaskInfo) []*stintv1.TaskInfo {
	return slices.DeleteFunc(tasks, func(task *stintv1.TaskInfo) bool { return !a.sees(task) })
}

// hideBodies takes the bodies and results out that the principal must not see.
func (a *asking) hideBodies(tasks []*stintv1.TaskInfo) {
	for _, task := range tasks {
		if !a.principal.May(access.ReadBodies, task.GetAction(), task.GetId()) {
			task.Content, task.Outcome, task.Hidden = nil, nil, true
		}
	}
}

// trimGraph leaves the tasks in a graph that the principal may see, and what is between them.
// The results of conditions are of the dependents' parameters, as bodies are.
func (a *asking) trimGraph(graph *stintv1.GetGraphResponse) {
	all := len(graph.GetTasks())
	actions := make(map[string]string, all)
	for _, task := range graph.GetTasks() {
		actions[task.GetId()] = task.GetAction()
	}
	for _, condition := range graph.GetConditions() {
		id := condition.GetDependent()
		if !a.principal.May(access.ReadBodies, actions[id], id) {
			condition.Hidden = len(condition.GetCondition().GetResults())+
				len(condition.GetCondition().GetResultBytes()) > 0
			condition.Condition.Results, condition.Condition.ResultBytes = nil, nil
		}
	}
	graph.Tasks = a.seen(graph.GetTasks())
	if len(graph.GetTasks()) == all {
		return
	}
	graph.Cut = true
	left := make(map[string]bool, len(graph.GetTasks()))
	for _, task := range graph.GetTasks() {
		left[task.GetId()] = true
	}
	graph.Dependencies = slices.DeleteFunc(graph.GetDependencies(),
		func(d *stintv1.Dependency) bool {
			return !left[d.GetPredecessor()] || !left[d.GetDependent()]
		})
	graph.Conditions = slices.DeleteFunc(graph.GetConditions(),
		func(c *stintv1.EdgeCondition) bool {
			return !left[c.GetCondition().GetAfter()] || !left[c.GetDependent()]
		})
}

func uniqueIDs[ID ~string](ids []ID) []ID {
	slices.Sort(ids)
	return slices.Compact(ids)
}
