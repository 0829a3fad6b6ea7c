package command

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/cmd/stint/internal/jobimport"
)

// What a sub-command can take away.
const (
	nothing = "takes nothing away: it looks, adds, or can be undone by another command"
	named   = "takes away what its arguments name one by one"
	asked   = "takes away what its arguments do not name, so it asks, and wants --yes"
	moved   = "moves what others have kept elsewhere, so it asks, and wants --yes"
	ownOnly = "drops only what it has made itself"
)

// destroys says of each sub-command what it can take away.
var destroys = map[string]string{
	"actors": nothing, "changes": nothing, "check": nothing, "ends": nothing, "errors": nothing,
	"exit-codes": nothing, "export": nothing, "explain": nothing, "graph": nothing, "json": nothing,
	"limits": nothing, "ls": nothing, "show": nothing, "stats": nothing, "statements": nothing,
	"top": nothing, "ui": nothing, "version": nothing, "wait": nothing, "help": nothing,
	"completion": nothing, "schedule": nothing, "schedule ls": nothing, "schedule next": nothing,
	"token": nothing, "token ls": nothing, "migrate status": nothing, "migrate up": nothing,
	"migrate functions": nothing, "insert": nothing, "submit": nothing, "debounce": named,
	"answer": named, "worker": nothing, "serve": nothing, "import": nothing,
	"limit": nothing, "weight": nothing, "pause": nothing, "resume": nothing,
	"schedule put": nothing, "schedule pause": nothing, "schedule resume": nothing,
	"schedule trigger": nothing, "schedule rm": named, "token new": nothing, "token rm": named,
	"abort": asked, "delete": asked, "retry": asked, "change": asked,
	"prune": asked, "migrate": asked, "adopt": asked,
	"demo": ownOnly, demoWorkerName: nothing,
}

// A new sub-command says what it can take away, and asks if that is more than it was told to.
// Proves G298.
func TestCommands_AskBeforeTheyDestroy(t *testing.T) {
	t.Parallel()
	for _, source := range jobimport.Sources {
		destroys["import "+source.Name] = moved
	}
	seen := map[string]bool{}
	var look func(cmd *cobra.Command, path string)
	look = func(cmd *cobra.Command, path string) {
		for _, sub := range cmd.Commands() {
			name := sub.Name()
			if path != "" {
				name = path + " " + name
			}
			if path == "completion" || name == "help" && sub.Hidden {
				continue
			}
			what, known := destroys[name]
			seen[name] = true
			switch hasYes := sub.Flags().Lookup("yes") != nil; {
			case !known:
				t.Errorf("it is not said what stint %s can take away", name)
			case hasYes != (what == asked || what == moved):
				t.Errorf("stint %s %s, and has --yes: %t", name, what, hasYes)
			}
			look(sub, name)
		}
	}
	look((&program{}).root(), "")
	for name := range destroys {
		if !seen[name] && name != "help" && name != "completion" {
			t.Errorf("there is no stint %s", name)
		}
	}
}
