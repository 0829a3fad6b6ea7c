package shards

import (
	"fmt"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/views"
)

// An ID names a task of a cluster: on each shard, an ID of the store is unique.
type ID struct {
	Shard string
	Task  stint.TaskID
}

// String writes the ID as shard/task.
func (id ID) String() string { return id.Shard + "/" + string(id.Task) }

// ParseID undoes [ID.String].
func ParseID(text string) (ID, error) {
	shard, task, ok := strings.Cut(text, "/")
	if !ok || task == "" {
		return ID{}, &stint.ArgumentError{
			Argument: "ID", Index: -1, Err: stint.ErrInvalidArgument,
			Problem: fmt.Sprintf("%.80q must be shard/task", text),
		}
	}
	return ID{shard, stint.TaskID(task)}, checkName(shard)
}

// What a cluster inserts for itself has IDs that begin like this.
const (
	gatePrefix        = "stint.gate/"
	guardPrefix       = "stint.guard/"
	decisionPrefix    = "stint.decision/"
	reportPrefix      = "stint.report/"
	placeholderPrefix = views.PlaceholderPrefix
	linkPrefix        = "stint.link/" // an edge between shards that was added to stored tasks
)

// And these actions. Relays ask for the reports to one shard apart from those to others, so that a
// shard that is away holds up nothing else.
const (
	guardAction    = "stint.Guard"
	decisionAction = "stint.Decision"
	reportAction   = "stint.Report/"
	linkAction     = "stint.Link"
)

// placeholderID is the ID of a placeholder: it begins with the task that it stands for, for people
// to read.
func placeholderID(of ID, insert string) stint.TaskID {
	return stint.TaskID(placeholderPrefix + of.String() + "/" + insert)
}

// StandsFor returns the task of another shard that a task stands for, as a placeholder or in an
// input of another task; false if the task is none of these.
func StandsFor(placeholder stint.TaskID) (ID, bool) {
	shard, task, ok := views.StandsFor(placeholder)
	return ID{shard, task}, ok
}

// RelayAction is one of the actions of [IsOwnAction]: whoever may control all its tasks is trusted
// like a relay.
const RelayAction = decisionAction

// IsOwnAction reports whether relays perform tasks of an action. Such tasks say what to open,
// answer and delete on which shard, so whoever inserts them must be trusted with that.
func IsOwnAction(action string) bool {
	switch action {
	case guardAction, decisionAction, linkAction:
		return true
	}
	return strings.HasPrefix(action, reportAction)
}

// IsOwn reports whether a task was inserted by a cluster for itself: it opens or closes an insert,
// finishes an edge, reports to another shard, stands for a task of another shard, or names its own.
func IsOwn(id stint.TaskID) bool {
	if id == nameTask {
		return true
	}
	for _, prefix := range []string{
		gatePrefix, guardPrefix, decisionPrefix, reportPrefix, placeholderPrefix, linkPrefix,
	} {
		if strings.HasPrefix(string(id), prefix) {
			return true
		}
	}
	return false
}
