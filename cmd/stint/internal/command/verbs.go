package command

import (
	"context"

	"github.com/stint-tasks/stint/verbs"
	"github.com/stint-tasks/stint/worker"
)

// allVerbs are those that sub-commands need, of a store or of a client of a service.
type allVerbs interface {
	verbs.All
	verbs.Follower
	worker.Queue
	Close(ctx context.Context) error
}

// taskVerbs are those for tasks that are there, which shards have, too.
type taskVerbs interface {
	verbs.Changer
	verbs.Reader
	verbs.Waiter
	verbs.Auditor
	Close(ctx context.Context) error
}
