package command

import (
	"testing"

	"github.com/spf13/cobra"
)

func TestHelp_HasExamplesOfEverything(t *testing.T) {
	t.Parallel()
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		ofCobra := cmd.HasParent() && cmd.Parent().Name() == "completion"
		if cmd.Runnable() && !cmd.Hidden && !ofCobra &&
			(cmd.Example == "" || cmd.Short == "" || cmd.Long == "") {
			t.Errorf("%s is not explained, or without an example", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look((&program{}).root())
}
