package shards

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// A Dependency says that one task waits for another, on whatever shards.
type Dependency struct{ Predecessor, Dependent ID }

// link is the body of a task that finishes an edge between shards.
type link struct {
	Predecessor ID           `json:"predecessor"`
	Dependent   ID           `json:"dependent"`
	Placeholder stint.TaskID `json:"placeholder"`
	Report      stint.TaskID `json:"report"`
	// Decision is an external task: whether the edge stays is decided by its first answer.
	Decision stint.TaskID `json:"decision"`
}

// AddDependencies makes stored tasks wait for others, as [stint.Store.AddDependencies] does. Those
// within a shard are added shard by shard, and then those between shards, one by one: after an
// error, the ones before it are added. The call may be repeated after any failure; a dependency
// that exists is no error.
//
// A dependency that would close a cycle is refused with a [*stint.CycleError].
//
// Before one within a shard is added, the call looks through the shards that the network of its
// dependent reaches; an error says if one of them is away. It does not find cycles through other
// shards that are closed at the same moment, or in networks of more than 10,000 tasks on a shard.
//
// One between shards is refused also if the cycle is closed by dependencies that are added at the
// same moment on other shards: each call looks for a cycle when its own dependency is in place, so
// that of those that close one together at least one finds it and takes its dependency back. If its
// process dies before that, a relay looks instead, after [Options.DecideWithin]. The network of the
// dependent must not have more than 10,000 tasks on a shard, or the call is refused with
// [stint.ErrTooLarge].
func (c *Cluster) AddDependencies(ctx context.Context, dependencies []Dependency) error {
	local := map[string][]stint.Dependency{}
	var between []Dependency
	for _, d := range dependencies {
		for _, id := range []ID{d.Predecessor, d.Dependent} {
			if _, err := c.topology.URL(id.Shard); err != nil {
				return said("add dependencies", err)
			}
		}
		if d.Predecessor.Shard == d.Dependent.Shard {
			local[d.Predecessor.Shard] = append(local[d.Predecessor.Shard], stint.Dependency{
				Predecessor: d.Predecessor.Task, Dependent: d.Dependent.Task,
			})
			continue
		}
		between = append(between, d)
	}
	for shard, some := range local {
		if err := c.refuseCycles(ctx, shard, some); err != nil {
			return said("add dependencies", err)
		}
		err := c.ask(ctx, shard, func(ctx context.Context, store Store) error {
			return store.AddDependencies(ctx, some)
		})
		if err != nil {
			return said("add dependencies", err)
		}
	}
	for _, d := range between {
		if err := c.addBetween(ctx, d); err != nil {
			return said(fmt.Sprintf("add dependency of %s on %s", d.Dependent, d.Predecessor), err)
		}
	}
	return nil
}

// refuseCycles refuses dependencies within a shard that would close cycles through others, of which
// the shard knows nothing.
func (c *Cluster) refuseCycles(
	ctx context.Context, shard string, dependencies []stint.Dependency,
) error {
	starts := make([]ID, len(dependencies))
	for i, d := range dependencies {
		starts[i] = ID{shard, d.Dependent}
	}
	w := walkFrom(c, starts...)
	err := w.all(ctx)
	for _, d := range dependencies {
		before, after := ID{shard, d.Predecessor}, ID{shard, d.Dependent}
		if _, reached := w.from[before]; err != nil || !reached {
			continue // not from any of the dependents
		}
		var cycle []stint.TaskID
		if cycle, err = path(ctx, c, after, before); cycle != nil {
			return &stint.CycleError{Path: append(cycle, cycle[0])}
		}
	}
	if errors.Is(err, stint.ErrTooLarge) { // the shard itself looks further, but at its own tasks
		return nil
	}
	return err
}

// newLink plans an edge. Its names follow from its ends, so that it is there once; after each
// attempt that was taken back, or that went with one of its ends, it has others.
func newLink(d Dependency, attempt int) (link, error) {
	if err := checkRemote("Dependency.Predecessor", d.Predecessor.Task); err != nil {
		return link{}, err
	}
	ends := fmt.Sprintf("%s\x00%s\x00%d", d.Predecessor, d.Dependent, attempt)
	name := uuid.NewSHA1(uuid.Nil, []byte(ends)).String()
	return link{
		d.Predecessor, d.Dependent, placeholderID(d.Predecessor, name),
		stint.TaskID(reportPrefix + name), stint.TaskID(decisionPrefix + name),
	}, nil
}

func (c *Cluster) addBetween(ctx context.Context, d Dependency) error {
	for _, shard := range []string{d.Predecessor.Shard, d.Dependent.Shard} {
		if err := c.claim(ctx, shard); err != nil {
			return err
		}
	}
	before, err := findAt(ctx, c, d.Predecessor)
	switch {
	case err != nil:
		return err
	case before == nil:
		return inShard(d.Predecessor.Shard,
			&stint.TaskError{IDs: []stint.TaskID{d.Predecessor.Task}, Err: stint.ErrTaskNotFound})
	}
	for attempt := 0; ; attempt++ {
		l, err := newLink(d, attempt)
		if err != nil {
			return err
		}
		again := false
		err = c.ask(ctx, d.Dependent.Shard, func(ctx context.Context, here Store) (err error) {
			again, err = place(ctx, here, l)
			return err
		})
		if err != nil {
			return err
		}
		if !again {
			return c.finishLink(ctx, l)
		}
	}
}

// place inserts the placeholder of an edge, and the task that finishes the edge if this process
// does not. It returns true if an edge of these names was there and is no more.
func place(ctx context.Context, here Store, l link) (again bool, err error) {
	stands, _, err := edge(reporting{l.Predecessor, l.Dependent.Shard}, l.Placeholder, l.Report)
	if err != nil {
		return false, err
	}
	stands.ToSignalAfter = []stint.TaskID{l.Dependent.Task}
	body, err := json.Marshal(l)
	if err != nil {
		return false, err
	}
	err = here.InsertTasks(ctx, []stint.Task{
		stands, {ID: l.Decision, Action: stint.External, PostResult: true}, {
			ID:     stint.TaskID(linkPrefix + strings.TrimPrefix(string(l.Report), reportPrefix)),
			Action: linkAction, Body: body, MaxTries: stint.UnlimitedTries,
		},
	})
	if !errors.Is(err, stint.ErrTaskExists) {
		return false, err
	}
	decided, err := find(ctx, here, l.Decision)
	if err != nil || decided != nil && decided.StatusCode == stint.StatusAborted {
		return err == nil, err
	}
	// One of its ends may have been deleted or replaced since.
	graph, err := here.Graph(ctx, l.Dependent.Task)
	if err != nil {
		return false, err
	}
	return !slices.Contains(graph.Dependencies, stint.Dependency{
		Predecessor: l.Placeholder, Dependent: l.Dependent.Task,
	}), nil
}

// finishLink makes the predecessor report, and looks whether the edge closes a cycle. If so, or if
// there is no predecessor, it takes the edge back. It may be called any number of times, by several
// at once: what the first of them decides holds.
func (c *Cluster) finishLink(ctx context.Context, l link) error {
	_, reports, err := edge(reporting{l.Predecessor, l.Dependent.Shard}, l.Placeholder, l.Report)
	if err != nil {
		return err
	}
	err = c.insertInto(ctx, l.Predecessor.Shard, []stint.Task{reports})
	if err == nil || errors.Is(err, stint.ErrTaskExists) {
		var cycle []stint.TaskID
		cycle, err = path(ctx, c, l.Dependent, l.Predecessor)
		if cycle != nil {
			err = &stint.CycleError{Path: append(cycle, cycle[0])}
		}
	}
	if err != nil && !isRefusal(err) {
		return err
	}
	return c.decideLink(ctx, l, err)
}

// isRefusal reports whether an edge must not be, for this reason.
func isRefusal(err error) bool {
	return errors.Is(err, stint.ErrCycle) || errors.Is(err, stint.ErrTooLarge) ||
		errors.Is(err, stint.ErrTaskNotFound)
}

// decideLink keeps an edge or, for a reason, takes it back, as the first to decide says. It returns
// why the edge was taken back.
func (c *Cluster) decideLink(ctx context.Context, l link, refusal error) error {
	answer := stint.Answer{ID: l.Decision, Code: stint.StatusCompleted}
	if refusal != nil {
		answer.Code, answer.Status = stint.StatusAborted, refusal.Error()
	}
	err := c.ask(ctx, l.Dependent.Shard, func(ctx context.Context, here Store) error {
		verdicts, err := here.AnswerTasks(ctx, clusterActor, []stint.Answer{answer})
		if err == nil {
			err = verdicts[0]
		}
		return err
	})
	if err != nil {
		if !errors.Is(err, stint.ErrTaskFinished) {
			return err
		}
		decided, err := findAt(ctx, c, ID{l.Dependent.Shard, l.Decision})
		switch {
		case err != nil:
			return err
		case decided == nil || decided.StatusCode == stint.StatusCompleted:
			return nil
		case refusal == nil:
			refusal = fmt.Errorf("%w: it was taken back: %s", stint.ErrCycle, decided.Status)
		}
	}
	if refusal == nil {
		return nil
	}
	return errors.Join(refusal, c.takeBack(ctx, l))
}

// takeBack makes an edge as if it had never been: its placeholder is completed, and nothing reports
// to it any more.
func (c *Cluster) takeBack(ctx context.Context, l link) error {
	placeholder := ID{l.Dependent.Shard, l.Placeholder}
	if err := c.end(ctx, placeholder, stint.StatusCompleted); err != nil {
		return err
	}
	there, err := c.Store(ctx, l.Predecessor.Shard)
	if err != nil {
		return err
	}
	_, err = there.DeleteTasks(ctx, []stint.TaskID{l.Report})
	if errors.Is(err, stint.ErrTaskNotFound) || errors.Is(err, stint.ErrTaskInProgress) {
		err = nil // it reports to a placeholder that has been answered
	}
	return inShard(l.Predecessor.Shard, err)
}

// performLink finishes an edge whose process may have died.
func (c *Cluster) performLink(ctx context.Context, task *worker.Task) (worker.Result, error) {
	var l link
	if err := json.Unmarshal(task.Body, &l); err != nil {
		return worker.Result{}, later(err) // a newer release may understand it
	}
	here, err := c.Store(ctx, l.Dependent.Shard)
	if err != nil {
		return worker.Result{}, later(err)
	}
	self, err := find(ctx, here, task.ID)
	if err == nil && (self == nil || self.OwnedAt.Sub(self.InsertedAt) < c.options.DecideWithin) {
		err = errUndecided // whoever adds the edge is told what becomes of it
	}
	if err == nil {
		err = c.finishLink(ctx, l)
	}
	if isRefusal(err) {
		return worker.Result{}, worker.Abort(err) // it was taken back
	}
	return worker.Result{}, later(err)
}
