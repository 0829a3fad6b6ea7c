package command

import (
	"errors"
	"strings"

	"github.com/stint-tasks/stint"
)

// flagsOf names arguments that were refused as the flags do.
func flagsOf(err error) error {
	var refused *stint.ArgumentError
	if !errors.As(err, &refused) {
		return err
	}
	names := strings.NewReplacer(
		"Limits.ConcurrencyPerKey", "--per-key", "Limits.Concurrency", "--concurrency",
		"Limits.FairGroup", "--fair-group", "needs Fair", "needs --fair",
		"Limits.Fair", "--fair", "Ordered", "--ordered",
		"Limits.RatePerKey.Burst", "--burst-per-key", "Limits.Rate.Burst", "--burst",
		"Limits.RatePerKey.Tasks", "--rate-per-key", "Limits.Rate.Tasks", "--rate",
		"Limits.RatePerKey.Per", "--rate-per-key", "Limits.Rate.Per", "--rate",
		"Task.ID", "the ID", "Task.Action", "--action", "Task.Key", "--key", "Task.Body", "--body",
		"quiet", "--quiet", "atMost", "--at-most",
	)
	name := names.Replace(refused.Argument)
	if name == refused.Argument {
		return err
	}
	return said(errInput, "%s %s", name, names.Replace(refused.Problem))
}

// refusedField says what is wrong with a field of a task. It names the field as the input does.
func refusedField(refused *stint.ArgumentError) string {
	names := strings.NewReplacer(
		"Task.ID", "id", "Task.Action", "action", "Task.Key", "key",
		"Task.Body", "body", "Task.Headers", "headers", "Task.MaxTries", "max_tries",
		"Task.OnAbort", "on_abort", "Task.NotBefore", "not_before", "Task.Deadline", "deadline",
		"Task.After", "after", "Task.ToSignalAfter", "to_signal_after", "Task.WhenAny", "when_any",
		"Task.When", "when", "Condition.After", "after of a condition",
		"Condition.States", "states of a condition", "Condition.Results", "results of a condition",
	)
	return names.Replace(refused.Argument + ": " + refused.Problem)
}
