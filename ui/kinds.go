package ui

import (
	"slices"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/verbs"
)

// A kind is a change that pages offer, by the name that forms have for it.
type kind struct {
	name  string
	needs Verb

	text, will, done string // Abort, aborts, aborted
	// states are those of tasks that it is for, and change is what it does to them. Both are nil if
	// it is not about tasks.
	states  []stint.State
	change  func(with wanted) bulk.Change
	others  string // the dependents that it changes, too
	removes bool   // it ends something
	also    Verb   // another one that it needs; empty: none
}

// wanted is what somebody wants of a change: the status of tasks that it aborts, or how others
// wait from now on.
type wanted struct {
	status string
	to     stint.TaskChanges
}

func kinds() []kind {
	return []kind{
		{
			name: "abort", needs: Abort, text: "Abort", will: "Aborts", done: "Aborted",
			states: bulk.Abortable(), removes: true, others: "that depend on them",
			change: func(with wanted) bulk.Change { return bulk.Aborting(with.status) },
		},
		{
			name: "retry", needs: Retry, text: "Retry", will: "Retries", done: "Retried",
			states: bulk.Retryable(), others: "that were aborted or skipped because of them",
			change: func(wanted) bulk.Change { return verbs.Changer.RetryTasks },
		},
		{
			name: "delete", needs: Delete, text: "Delete", will: "Deletes", done: "Deleted",
			states: bulk.Deletable(), removes: true,
			others: "of which all predecessors are deleted with them",
			change: func(wanted) bulk.Change { return verbs.Changer.DeleteTasks },
		},
		{
			name: "run", needs: Change, text: "Run now", will: "Starts", done: "Started",
			states: []stint.State{stint.StateScheduled}, change: changeWaiting,
		},
		{
			name: "change", needs: Change, text: "Change", will: "Changes", done: "Changed",
			states: bulk.Changeable(), change: changeWaiting,
		},
		{name: "pause", needs: Pause, text: "Pause", done: "Paused"},
		{name: "resume", needs: Pause, text: "Resume", done: "Resumed"},
		{name: "limit", needs: Limit, text: "Set the limits of", done: "Set the limits of"},
		{name: "weigh", needs: Limit, text: "Weights", done: "Set the weight of"},
		{name: "trigger", needs: Trigger, text: "Trigger", done: "Triggered"},
		{name: "insert", needs: Insert, text: "Insert", done: "Inserted"},
		{name: "schedule", needs: Schedule, text: "Edit", done: "Changed"},
		{
			name: "new-schedule", needs: Schedule, also: Insert, text: "Add a schedule",
			done: "Added",
		},
		{
			name: "delete-schedule", needs: Schedule, text: "Delete", done: "Deleted",
			removes: true,
		},
		{name: "answer", needs: Answer, text: "Answer", done: "Answered"},
	}
}

// kindNamed returns a kind by its name.
func kindNamed(name string) (kind, bool) {
	all := kinds()
	i := slices.IndexFunc(all, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return all[i], true
}

// isOfTasks reports whether a change is one of tasks, such as an abort.
func (k *kind) isOfTasks() bool { return k.change != nil }

// isFor reports whether whoever sent a request may make such a change.
func (k *kind) isFor(r *request) bool { return r.may(k.needs) && (k.also == "" || r.may(k.also)) }

// changeWaiting changes how tasks wait.
func changeWaiting(with wanted) bulk.Change { return bulk.Changing(with.to) }
