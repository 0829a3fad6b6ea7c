package command

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-tasks/stint/internal/testing/golden"
)

// Scripts call sub-commands and flags by their names, but none that the help hides.
func TestTree_KeepsTheNamesOfTheLastRelease(t *testing.T) {
	t.Parallel()
	var names []string
	var add func(*cobra.Command)
	add = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		path := cmd.CommandPath()
		names = append(names, path)
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, path+" --"+f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			add(sub)
		}
	}
	root := Tree()
	root.InitDefaultVersionFlag()
	add(root)
	golden.Kept(t, "testdata/kept.txt", names)
}
