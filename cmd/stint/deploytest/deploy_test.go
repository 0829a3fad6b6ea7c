package deploy_test

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-tasks/stint/cmd/stint/internal/command"
)

// parse finds the sub-command of a command line, which must have its flags and its arguments.
func parse(t *testing.T, args []string) (*cobra.Command, *pflag.FlagSet) {
	t.Helper()
	cmd, rest, err := command.Tree().Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil || !cmd.HasParent() {
		t.Fatalf("the command does not know %q: %v", args, err)
	}
	return cmd, cmd.Flags()
}

// knows fails unless the command tells of a variable.
func knows(t *testing.T, variable string) {
	t.Helper()
	root := command.Tree()
	texts := root.Long + root.UsageString()
	for _, sub := range root.Commands() {
		texts += sub.Long
	}
	if !strings.Contains(texts, variable) {
		t.Errorf("no help text has %s", variable)
	}
}
