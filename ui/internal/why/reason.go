package why

import (
	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A Reason is why a task does not run, or what became of it.
type Reason struct {
	Headline show.Sentence
	Details  []show.Sentence
	Bad      bool // somebody has to do something about it, as far as one can tell
	// Others are tasks that have to do with it, and OthersAre what they are.
	Others    []stint.TaskInfo
	OthersAre string
	More      int // how many others there are besides
}

// Add adds a sentence to the details.
func (r *Reason) Add(pieces ...any) { r.Details = append(r.Details, show.Say(pieces...)) }

// Cause says the cause of an abort of a task with the action in words.
func Cause(action string, cause stint.AbortCause) string {
	switch cause {
	case stint.CauseReturned:
		if action == stint.External {
			return "an answer said so"
		}
		return "its owner aborted it"
	case stint.CauseTries:
		return "it ran out of tries"
	case stint.CauseDependency:
		return "a task that it waited for was aborted"
	case stint.CauseCancelled:
		return "it was cancelled"
	case stint.CauseReplaced:
		return "it was replaced"
	case stint.CauseExpired:
		return "its deadline passed"
	case stint.CauseLost:
		return "several of its owners in a row died, or did not extend it"
	}
	return string(cause)
}

// Origin says in a few words what an origin does, or what became of it.
func Origin(task stint.TaskInfo) string {
	text := show.FirstWords(task.Status)
	if task.State == stint.StateAborted {
		said := Cause(task.Action, task.AbortCause)
		if text == "" {
			return said
		}
		return said + ": " + display.Text(text)
	}
	if text != "" {
		text = display.Text(text)
	}
	return text
}
