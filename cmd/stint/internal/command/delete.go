package command

import (
	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/verbs"
)

func (p *program) deleteCommand() *cobra.Command {
	remove := &change{
		verb: "delete", done: "deleted",
		states: bulk.Deletable(),
		do:     verbs.Changer.DeleteTasks,
	}
	return remove.command(p, &cobra.Command{
		SuggestFor: []string{"rm", "remove"},
		Short:      "Delete tasks",
		Long: `Remove tasks from the store, including finished ones, which frees their IDs. The
dependents of an unfinished task no longer wait for it; a dependent of which all predecessors
are deleted before they finished is deleted too; others go on. If one of the tasks is in
progress, or one of the IDs has no task, nothing is deleted.

Instead of IDs, filters can choose the tasks, as in ls: those not in progress. The
command says how many they are and asks for confirmation, unless --yes is given. It deletes
10,000 of them at a time, or more that depend on one another, and says how many so far. If
it is interrupted, these stay deleted; run it again for the rest. With --server all are in
one request.

--dry-run does the work on copies of the tasks: nobody waits for it. So does the question, of
up to 10,000 tasks, to say how many go with them, and what follows: which others begin, are
skipped, or are aborted a second later. Tasks that begin or end before you answer stay as
they are, and the command says how many.

With --json: deleted, the IDs of the tasks; others, how many dependents were deleted with
them; and with filters found, how many tasks passed them. With --dry-run it is would_delete
instead of deleted; and started, skipped and later say how many others would begin, be
skipped, or be aborted a second later.`,
		Example: `  stint delete greet/world
  stint delete --prefix export/main/ --state aborted`,
	})
}
