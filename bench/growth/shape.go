package main

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/stint-tasks/stint"
)

// A shape is what a store holds: the same of everything, by a factor.
type shape struct {
	factor  float64
	actions []string // of the many queues
	bodies  []byte
}

const (
	plainTasks  = 4_000_000
	queuesLarge = 5000
	joined      = 300 // members of a small fan-in
	priorities  = 5
	leaseSize   = 100
	actorsMost  = 100
	longLease   = 24 * time.Hour
)

// newShape is what holds 9.2 million tasks, times factor.
func newShape(factor float64) *shape {
	s := &shape{factor: factor, bodies: make([]byte, 100)}
	for i := range s.of(queuesLarge) {
		s.actions = append(s.actions, fmt.Sprintf("queue%d", i))
	}
	return s
}

func (s *shape) of(n int) int { return max(1, int(float64(n)*s.factor)) }

// A part of a shape is some tasks, and what is done with them once they are inserted.
type part struct {
	name  string
	tasks iter.Seq[stint.Task]
	then  func(context.Context, *stint.Store) error
}

// parts are what the store holds, in the order in which it comes to it.
func (s *shape) parts() []part {
	const posted, aborted, scheduled, limited = 1_000_000, 20_000, 500_000, 500_000
	const groupsDone, groupsLeft, fan, chains, chain = 1500, 1000, 100_000, 8, 5000
	const owned, ready = 200_000, 2_000_000
	hour := time.Now().Add(time.Hour) //nolint:forbidigo // no matter when
	return []part{
		{"plain", s.alike("plain", s.of(plainTasks), nil), finish("plain", nil)},
		{"posted", s.alike("posted", s.of(posted), func(task *stint.Task) {
			task.PostResult = true
		}), finish("posted", []byte("result"))},
		{"aborted", s.alike("aborted", s.of(aborted), nil), s.abort("aborted", s.of(aborted))},
		{"joined", s.groups("joined", s.of(groupsDone)), finish("joined", nil)},
		{"joining", s.groups("joining", s.of(groupsLeft)), nil},
		{"fan-in", s.fanIn(s.of(fan)), nil},
		{"fan-out", s.fanOut(s.of(fan)), nil},
		{"chains", s.chains(chains, s.of(chain)), nil},
		{"scheduled", s.alike("scheduled", s.of(scheduled), func(task *stint.Task) {
			task.NotBefore = hour
		}), nil},
		{"limited", s.alike("limited", s.of(limited), func(task *stint.Task) {
			task.Deadline = hour
		}), nil},
		{"owned", s.alike("owned", s.of(owned), nil), own("owned", s.of(owned)/leaseSize)},
		{"ready", s.ready(s.of(ready)), nil},
	}
}

// build fills an empty store.
func (s *shape) build(ctx context.Context, store *stint.Store) error {
	for _, part := range s.parts() {
		if err := insert(ctx, store, part.tasks); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		if part.then == nil {
			continue
		}
		if err := part.then(ctx, store); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// insert inserts tasks in batches, which hold whole groups.
func insert(ctx context.Context, store *stint.Store, tasks iter.Seq[stint.Task]) error {
	const batchMax = 200 * (joined + 1)
	var batch []stint.Task
	for task := range tasks {
		batch = append(batch, task)
		if len(batch) == batchMax {
			if err := store.InsertTasks(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return store.InsertTasks(ctx, batch)
}

func id(name string, n int) stint.TaskID { return stint.TaskID(fmt.Sprintf("%s-%07d", name, n)) }

func (s *shape) task(name string, n int) stint.Task {
	return stint.Task{ID: id(name, n), Action: name, Body: s.bodies}
}

func (s *shape) alike(name string, n int, change func(*stint.Task)) iter.Seq[stint.Task] {
	return func(yield func(stint.Task) bool) {
		for i := range n {
			task := s.task(name, i)
			if change != nil {
				change(&task)
			}
			if !yield(task) {
				return
			}
		}
	}
}

func (s *shape) groups(name string, n int) iter.Seq[stint.Task] {
	return func(yield func(stint.Task) bool) {
		for group := range n {
			join := s.task("join", group)
			join.ID = id(name+"-join", group)
			for i := range joined {
				member := s.task(name, group*joined+i)
				join.After = append(join.After, member.ID)
				if !yield(member) {
					return
				}
			}
			if !yield(join) {
				return
			}
		}
	}
}

func (s *shape) fanIn(n int) iter.Seq[stint.Task] {
	return func(yield func(stint.Task) bool) {
		join := stint.Task{ID: "bigjoin", Action: "bigjoin"}
		for i := range n {
			task := s.task("bigin", i)
			join.After = append(join.After, task.ID)
			if !yield(task) {
				return
			}
		}
		yield(join)
	}
}

func (s *shape) fanOut(n int) iter.Seq[stint.Task] {
	return func(yield func(stint.Task) bool) {
		if !yield(stint.Task{ID: "bigroot", Action: "bigroot"}) {
			return
		}
		for i := range n {
			task := s.task("bigout", i)
			task.After = []stint.TaskID{"bigroot"}
			if !yield(task) {
				return
			}
		}
	}
}

func (s *shape) chains(n, length int) iter.Seq[stint.Task] {
	return func(yield func(stint.Task) bool) {
		for chain := range n {
			name := fmt.Sprintf("chain%d", chain)
			for i := range length {
				task := s.task(name, i)
				if i > 0 {
					task.After = []stint.TaskID{id(name, i-1)}
				}
				if !yield(task) {
					return
				}
			}
		}
	}
}

func (s *shape) ready(n int) iter.Seq[stint.Task] {
	return func(yield func(stint.Task) bool) {
		for i := range n {
			task := s.task("ready", i)
			task.Action = s.actions[i%len(s.actions)]
			task.Priority = int16(i / len(s.actions) % priorities)
			if !yield(task) {
				return
			}
		}
	}
}

// finish completes all ready tasks with an action.
func finish(action string, result []byte) func(context.Context, *stint.Store) error {
	const most = 50_000
	return func(ctx context.Context, store *stint.Store) error {
		for {
			owned, err := store.OwnTasks(ctx, "builder", most, []string{action}, longLease)
			if err != nil || len(owned) == 0 {
				return err
			}
			returns := make([]stint.Return, len(owned))
			for i, task := range owned {
				returns[i] = stint.Return{
					ID: task.ID, Token: task.Token, Code: stint.StatusCompleted, Result: result,
				}
				if result != nil {
					returns[i].Status = "done"
				}
			}
			if _, err := store.ReturnTasks(ctx, returns); err != nil {
				return err
			}
		}
	}
}

func (s *shape) abort(name string, n int) func(context.Context, *stint.Store) error {
	return func(ctx context.Context, store *stint.Store) error {
		ids := make([]stint.TaskID, n)
		for i := range ids {
			ids[i] = id(name, i)
		}
		_, err := store.AbortTasks(ctx, ids, "aborted for the benchmark")
		return err
	}
}

// own fetches as many leases, to a hundred actors.
func own(action string, leases int) func(context.Context, *stint.Store) error {
	return func(ctx context.Context, store *stint.Store) error {
		for lease := range leases {
			actor := stint.ActorID(fmt.Sprintf("actor%d", lease%actorsMost))
			_, err := store.OwnTasks(ctx, actor, leaseSize, []string{action}, longLease)
			if err != nil {
				return err
			}
		}
		return nil
	}
}
