package command

import (
	"errors"
	"regexp"
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
		"Limits.ByCost", "--by-cost", "or Fair", "or --fair", "Task.Cost", "--cost",
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

// argumentPattern finds the fields that errors name, and wordPattern the ends of words in a name.
var (
	argumentPattern = regexp.MustCompile(`\b(Task|Condition|Schedule)\.([A-Z]\w*)`)
	wordPattern     = regexp.MustCompile(`([a-z])([A-Z])`)
)

// refusedField says what is wrong with a field of a task, or of a schedule. It names the field as
// the input does.
func refusedField(refused *stint.ArgumentError) string {
	text := refused.Argument + ": " + refused.Problem
	return argumentPattern.ReplaceAllStringFunc(text, func(field string) string {
		of, name, _ := strings.Cut(field, ".")
		name = strings.ToLower(wordPattern.ReplaceAllString(name, "${1}_${2}"))
		if of == "Condition" {
			name += " of a condition"
		}
		return name
	})
}
