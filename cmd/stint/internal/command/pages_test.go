package command

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const documents = "../../../../docs"

// The page of the command names each sub-command, and some page each of its flags.
func TestPages_NameEveryCommandAndFlag(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(documents, "reference", "command.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := allPages(t)
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

// allPages is the text of all pages for users: the decisions are for contributors.
func allPages(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(documents, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == "design" {
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
