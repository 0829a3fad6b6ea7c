package model_test

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
)

// A farMachine is a netMachine whose verbs go through a service, with those of a client that the
// other has no use for.
type farMachine struct {
	netMachine

	far *far
}

// teller are the verbs that only tell something.
type teller interface {
	Explain(ctx context.Context, id stint.TaskID) (stint.Explanation, error)
	Graph(ctx context.Context, id stint.TaskID) (*stint.Graph, error)
	Stats(ctx context.Context) (stint.Stats, error)
	Problems(ctx context.Context, limit int) (stint.Problems, error)
	ListActors(ctx context.Context) ([]stint.ActorInfo, error)
	ListTasks(ctx context.Context, filter stint.Filter) (stint.TaskPage, error)
}

// look asks the client and the store the same.
func (m *farMachine) look(t *rapid.T) {
	m.far.begin(false)
	id := drawID(t, "id")
	state := rapid.SampledFrom([]stint.State{
		stint.StateBlocked, stint.StateAborted, stint.StateInProgress,
	}).Draw(t, "state")
	for name, ask := range map[string]func(from teller) (any, error){
		"Explain": func(from teller) (any, error) {
			why, err := from.Explain(t.Context(), id)
			why.Task = utc([]stint.TaskInfo{why.Task})[0]
			why.WaitsFor, why.BecauseOf = utc(why.WaitsFor), utc(why.BecauseOf)
			why.Now, why.AskedAt = time.Time{}, why.AskedAt.UTC()
			if why.Start != nil {
				why.Start.At = why.Start.At.UTC()
			}
			return why, err
		},
		"Graph": func(from teller) (any, error) {
			graph, err := from.Graph(t.Context(), id)
			if err != nil {
				return nil, err
			}
			graph.Tasks = utc(graph.Tasks)
			graph.Dependencies = append([]stint.Dependency(nil), graph.Dependencies...)
			slices.SortFunc(graph.Dependencies, func(a, b stint.Dependency) int {
				return cmp.Or(cmp.Compare(a.Predecessor, b.Predecessor),
					cmp.Compare(a.Dependent, b.Dependent))
			})
			return graph, nil
		},
		"Stats": func(from teller) (any, error) {
			stats, err := from.Stats(t.Context())
			stats.PruningBehind = 0
			stats.Actions = append([]stint.ActionStats(nil), stats.Actions...)
			for i := range stats.Actions { // the time goes on
				stats.Actions[i].OldestReady = 0
			}
			return stats, err
		},
		"Problems": func(from teller) (any, error) {
			problems, err := from.Problems(t.Context(), 100)
			problems.Slow, problems.Failing = utc(problems.Slow), utc(problems.Failing)
			problems.Failed, problems.Unwatched = utc(problems.Failed), utc(problems.Unwatched)
			return problems, err
		},
		"ListActors": func(from teller) (any, error) {
			actors, err := from.ListActors(t.Context())
			return append([]stint.ActorInfo(nil), actors...), err
		},
		"ListTasks": func(from teller) (any, error) {
			page, err := from.ListTasks(t.Context(), stint.Filter{
				States: []stint.State{state}, NewestFirst: state == stint.StateAborted, Limit: 3,
			})
			page.Tasks = utc(page.Tasks)
			return page, err
		},
	} {
		got, err := ask(m.far)
		want, wantErr := ask(m.direct)
		requireError(t, name, err, wantErr)
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%s = %+v, want %+v", name, got, want)
		}
	}
}

// utc puts all times into one zone, and makes no tasks nil.
func utc(infos []stint.TaskInfo) []stint.TaskInfo {
	for i := range infos {
		info := &infos[i]
		for _, at := range []*time.Time{
			&info.Deadline, &info.InsertedAt, &info.NotBefore, &info.FinishedAt, &info.OwnedAt,
			&info.LeaseUntil,
		} {
			*at = at.UTC()
		}
	}
	if len(infos) == 0 {
		return nil
	}
	return infos
}

// wait waits for tasks that have ended.
func (m *farMachine) wait(t *rapid.T) {
	m.far.begin(false)
	ids := slices.DeleteFunc(m.drawIDs(t, 3, "ids"), func(id stint.TaskID) bool {
		task := m.model.tasks[id]
		return task != nil && !task.final() && task.PostResult
	})
	got, err := m.far.WaitForTasks(t.Context(), ids)
	want, wantErr := m.direct.WaitForTasks(t.Context(), ids)
	if (err == nil) != (wantErr == nil) || !reflect.DeepEqual(utc(got), utc(want)) ||
		errors.Is(err, stint.ErrNoPostResult) != errors.Is(wantErr, stint.ErrNoPostResult) {
		t.Fatalf("WaitForTasks(%q) = %+v, %v, want %+v, %v", ids, got, err, want, wantErr)
	}
}

// A far transaction is what a client is to do in one commit, what the model says to each part in
// turn, and what it is like afterwards.
type farTransaction struct {
	client.Transaction

	batch    []netTask
	replaced []netTask
	settled  []stint.Dependency
	next     *netReference
	wrong    verdicts
	refused  bool // dependencies or returns
}

// transact does several verbs in one commit.
func (m *farMachine) transact(t *rapid.T) {
	tx := m.drawTransaction(t)
	for _, part := range []func(){
		tx.holdAndInsert, tx.depend, tx.openAndEnd, tx.giveBack,
	} {
		if len(tx.wrong) == 0 && !tx.refused {
			part()
		}
	}
	ids := make([]stint.TaskID, len(tx.Insert))
	for i := range ids {
		ids[i] = tx.Insert[i].ID
	}
	// Without a return, a client cannot tell whether an attempt has committed if the tasks were
	// there before; without a new task either, it does not try again.
	m.far.begin(len(tx.Return) == 0 && m.far.stored(t.Context(), ids) == len(ids))
	_, err := m.far.Transact(t.Context(), tx.Transaction)
	if err == nil && len(tx.wrong) == 0 && !tx.refused {
		m.model = tx.next
		return
	}
	// Returns that earlier calls have made pass for those of an attempt whose answer is lost.
	if owns := func(given stint.Return) bool {
		return m.model.tasks[given.ID].owns(given.Token)
	}; err == nil && m.far.unsure() && len(tx.Return) > 0 && !slices.ContainsFunc(tx.Return, owns) {
		return
	}
	var dependencies *stint.DependencyError
	if tx.refused && (errors.Is(err, stint.ErrInvalidToken) || errors.As(err, &dependencies)) {
		return
	}
	edges := slices.Concat(batchEdges(tx.batch), batchEdges(tx.replaced), tx.Depend, tx.settled)
	m.judge(t, "Transact", err, tx.wrong, edges)
}

func (m *farMachine) drawTransaction(t *rapid.T) *farTransaction {
	tx := &farTransaction{next: m.model.clone(), settled: m.model.settled()}
	some := func(name string) bool { return one(t, 3, name) }
	if some("inserts") {
		tx.batch = m.batch(t, true)
		tx.Insert = plainTasks(tx.batch)
	}
	if some("replaces") {
		tx.replaced = m.batch(t, false)
		tx.Replace = plainTasks(tx.replaced)
	}
	if some("depends") {
		pair := stint.Dependency{Predecessor: drawID(t, "after"), Dependent: drawID(t, "run")}
		tx.Depend = []stint.Dependency{pair}
	}
	if some("retries") {
		tx.Retry = m.drawIDs(t, 2, "retried")
	}
	if some("aborts") {
		tx.Abort, tx.AbortStatus = m.drawIDs(t, 2, "aborted"), "enough"
	}
	if some("deletes") {
		tx.Delete = m.drawIDs(t, 2, "deleted")
	}
	if some("exists") {
		tx.MustExist = m.drawIDs(t, 2, "there")
	}
	for range rapid.IntRange(0, 2).Draw(t, "returns") {
		if len(m.owned) == 0 {
			break
		}
		owned := m.drawOwned(t)
		if slices.ContainsFunc(tx.Return, func(r stint.Return) bool { return r.ID == owned.ID }) {
			continue
		}
		if task := m.model.tasks[owned.ID]; some("holds") && (task == nil || !task.late) {
			tx.Hold = append(tx.Hold, owned)
		}
		tx.Return = append(tx.Return, stint.Return{
			ID: owned.ID, Token: owned.Token,
			Code: rapid.SampledFrom([]stint.StatusCode{
				stint.StatusCompleted, stint.StatusAborted, stint.StatusPending,
			}).Draw(t, "code"),
		})
	}
	return tx
}

func (tx *farTransaction) holdAndInsert() {
	for _, owned := range tx.Hold {
		tx.refused = tx.refused || !tx.next.tasks[owned.ID].owns(owned.Token)
	}
	if tx.refused {
		return
	}
	tx.wrong.add(tx.next.missing(tx.MustExist), stint.ErrTaskNotFound)
	if len(tx.wrong) == 0 && len(tx.batch) > 0 {
		tx.wrong = tx.next.insert(tx.batch, false)
	}
	if len(tx.wrong) == 0 && len(tx.replaced) > 0 {
		tx.wrong = tx.next.insert(tx.replaced, true)
	}
}

func (tx *farTransaction) depend() {
	if len(tx.Depend) == 0 {
		return
	}
	refused, cyclic, toAny := tx.next.addDependencies(tx.Depend)
	if toAny {
		tx.wrong = append(tx.wrong, errAny)
	}
	if cyclic {
		tx.wrong = append(tx.wrong, stint.ErrCycle)
	}
	tx.refused = len(refused) > 0
}

func (tx *farTransaction) openAndEnd() {
	for _, part := range []struct {
		ids []stint.TaskID
		do  func([]stint.TaskID) verdicts
	}{{tx.Retry, tx.next.retry}, {tx.Abort, tx.next.abort}, {tx.Delete, tx.next.delete}} {
		if len(part.ids) > 0 && len(tx.wrong) == 0 {
			tx.wrong = part.do(part.ids)
		}
	}
}

func (tx *farTransaction) giveBack() {
	if len(tx.Return) > 0 {
		tx.refused = slices.Contains(tx.next.returnTasks(tx.Return), false)
	}
}
