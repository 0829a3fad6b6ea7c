// Package docs_test runs the commands of the documents.
package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Commands that a document marks as run do what they did, for a user who has nothing yet.
func TestBlocks_Run(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			testrun.Missing(t, "install "+program)
		}
	}
	marked := regexp.MustCompile("(?s)<!-- run -->\n```sh\n(.*?)```")
	found := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for i, block := range marked.FindAllSubmatch(text, -1) {
			found++
			t.Run(fmt.Sprint(path, " ", i+1), func(t *testing.T) {
				t.Parallel()
				runs(t, string(block[1]))
			})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no document has commands to run")
	}
}

// runs runs commands at the root of the repository, in a home of their own.
func runs(t *testing.T, commands string) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir = ".."
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "STINT_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "HOME="+home)
	for _, variable := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		value, err := exec.CommandContext(t.Context(), "go", "env", variable).Output()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, variable+"="+strings.TrimSpace(string(value)))
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, commands, output)
	}
}
