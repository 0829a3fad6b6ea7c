package command

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
)

// answerKeyVariable names the variable of the environment that stands for --key, which others could
// read in the list of processes.
const answerKeyVariable = "STINT_ANSWER_KEY"

// answerFlags are those of an answer.
type answerFlags struct {
	completed, aborted, skipped    bool
	status, result, resultFile, by string
	key                            string
}

func (p *program) answerCommand() *cobra.Command {
	var flags answerFlags
	cmd := &cobra.Command{
		Use:   "answer ID",
		Short: "Say how an external task ended",
		Long: `Answer a task whose action is stint.External: one that nobody is given, since a
person or another system performs it. Its dependents are ready as soon as it is completed,
and aborted with it if it is aborted; if it is skipped, which is no failure, so are they,
unless they run anyway. A task is answered once.

A task that was inserted with an answer_key takes only answers with that key. Give it in
STINT_ANSWER_KEY: others can read --key in the list of processes. Those who have nothing but
the key send their answer to a service (see: stint help serve, /answer).

With --json: id and code.`,
		Example: `  stint answer order/7/approve --completed --status "fine with me"
  STINT_ANSWER_KEY="$key" stint answer order/7/approve --aborted`,
		GroupID: groupTasks,
		Args:    oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.answer(cmd, stint.TaskID(args[0]), &flags)
		},
	}
	set := cmd.Flags()
	set.BoolVar(&flags.completed, "completed", false, "it was done")
	set.BoolVar(&flags.aborted, "aborted", false, "it was not, and will not be")
	set.BoolVar(&flags.skipped, "skipped", false, "it is not needed")
	set.StringVar(&flags.status, "status", "", "a `text` for people")
	set.StringVar(&flags.result, "result", "", "a `text` for dependents and waiters")
	set.StringVar(&flags.resultFile, "result-file", "", "a `file` with the result")
	set.StringVar(&flags.key, "key", "",
		"the `key` that the task was inserted with (default $"+answerKeyVariable+")")
	set.StringVar(&flags.by, "by", "", "the `name` of who answers (default: your user name)")
	return cmd
}

func (p *program) answer(cmd *cobra.Command, id stint.TaskID, flags *answerFlags) error {
	answer := stint.Answer{
		ID: id, Key: stint.AnswerKey(flags.key), Status: flags.status,
	}
	ends := 0
	for code, chosen := range map[stint.StatusCode]bool{
		stint.StatusCompleted: flags.completed, stint.StatusAborted: flags.aborted,
		stint.StatusSkipped: flags.skipped,
	} {
		if chosen {
			answer.Code, ends = code, ends+1
		}
	}
	given := cmd.Flags().Changed
	if !given("key") {
		answer.Key = stint.AnswerKey(os.Getenv(answerKeyVariable))
	}
	switch {
	case ends != 1:
		return said(errInput, "expected --completed, --aborted or --skipped")
	case given("result") && flags.resultFile != "":
		return said(errInput, "--result excludes --result-file")
	case flags.resultFile != "":
		result, err := os.ReadFile(flags.resultFile)
		if err != nil {
			return said(errInput, "%v", err)
		}
		answer.Result = result
	case given("result"):
		answer.Result = []byte(flags.result)
	}
	by := flags.by
	if by == "" {
		by = userName("stint answer")
	}
	return p.withStore(cmd.Context(), func(ctx context.Context, db *database) error {
		verdicts, err := db.store.AnswerTasks(ctx, stint.ActorID(by), []stint.Answer{answer})
		if err == nil {
			err = verdicts[0]
		}
		switch {
		case err != nil:
			return err
		case p.json:
			return p.printJSON(map[string]any{"id": id, "code": answer.Code})
		}
		return p.printf("%s\n", answer.Code)
	})
}
