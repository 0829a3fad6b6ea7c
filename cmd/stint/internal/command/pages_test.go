package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-tasks/stint/internal/testing/golden"
)

const documents = "../../../../docs"

// The page of the command names each sub-command, and some page each of its flags.
func TestPages_NameEveryCommandAndFlag(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(documents, "reference", "command.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := golden.ForUsers(t, documents)
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), "stint ")
		ofCobra := cmd.HasParent() && cmd.Parent().Name() == "completion"
		if cmd.Hidden || ofCobra {
			return
		}
		if cmd.Runnable() && cmd.HasParent() && !isNamed(string(page), "`(stint )?"+path+`\b`) {
			t.Errorf("reference/command.md does not name `%s`", path)
		}
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if !flag.Hidden && !isNamed(all, "--"+flag.Name+`\b`) {
				t.Errorf("no page names --%s of %s", flag.Name, cmd.CommandPath())
			}
		})
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look((&program{}).root())
}

func isNamed(text, pattern string) bool { return regexp.MustCompile(pattern).MatchString(text) }
