package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/internal/display"
)

// noArguments is for sub-commands that take none.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

// subCommand is for commands that take no arguments except the names of sub-commands.
func subCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("there is no sub-command %q%s", args[0], didYouMean(cmd, args[0], ""))
}

// didYouMean asks whether a similar name of a sub-command was meant.
func didYouMean(cmd *cobra.Command, name, prefix string) string {
	const shortest = 5 // names at least that long may have two letters wrong
	cmd.SuggestionsMinimumDistance = 2
	if len(name) < shortest {
		cmd.SuggestionsMinimumDistance = 1
	}
	similar := cmd.SuggestionsFor(name)
	if len(similar) == 0 {
		return ""
	}
	slices.Sort(similar)
	return "; did you mean " + prefix + strings.Join(slices.Compact(similar), " or "+prefix) + "?"
}

// one is for sub-commands that take one argument.
func one(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("expected %s, got %s", what, number(args))
		}
		return nil
	}
}

// some is for sub-commands that take at least one argument.
func some(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("expected %s, got none", what)
		}
		return nil
	}
}

// oneID is for sub-commands that are about one task.
func oneID(cmd *cobra.Command, args []string) error {
	if err := one("one task ID")(cmd, args); err != nil {
		return err
	}
	return checkID(args[0])
}

// number says how many arguments there are.
func number(args []string) string {
	if len(args) == 0 {
		return "none"
	}
	return display.Number(int64(len(args)))
}

// oneFileAtMost is for sub-commands that read a file, or standard input.
func oneFileAtMost(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return errors.New("expected at most one FILE, got " + number(args))
	}
	return nil
}

func checkID(id string) error {
	const idBytesMax = 512
	if id == "" || len(id) > idBytesMax || !utf8.ValidString(id) {
		return fmt.Errorf("invalid task ID %.80q: must be 1 to %d bytes of UTF-8", id, idBytesMax)
	}
	return nil
}

// checkNames checks the names of actions or actors that a flag was given.
func checkNames(flag string, names ...string) error {
	const nameBytesMax = 255
	for _, name := range names {
		if name == "" || len(name) > nameBytesMax || !utf8.ValidString(name) {
			return said(errInput, "invalid --%s %.80q: must be 1 to %d bytes of UTF-8", flag, name,
				nameBytesMax)
		}
	}
	return nil
}
