package stint_test

import (
	"bufio"
	"os"
	process "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// The program of the README does its work as it stands there, also a second time: only the address
// of the database is another.
func TestReadme_ProgramRunsTwice(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const url = "postgres://localhost/app"
	readme, err := os.ReadFile("README.md")
	wantErr(t, "ReadFile", err, nil)
	_, program, found := strings.Cut(string(readme), "```go\npackage main\n")
	program, _, closed := strings.Cut(program, "```")
	if !found || !closed || !strings.Contains(program, `"`+url+`"`) {
		t.Fatal("README.md holds no program")
	}
	pool := testdb.NewEmpty(t)
	program = strings.Replace(program, `"`+url+`"`, strconv.Quote(testdb.URL(pool)), 1)
	dir := t.TempDir()
	source, built := filepath.Join(dir, "main.go"), filepath.Join(dir, "readme")
	wantErr(t, "WriteFile", os.WriteFile(source, []byte("package main\n"+program), 0o600), nil)
	for _, args := range [][]string{
		{"vet", source}, {"build", "-ldflags=-s -w", "-o", built, source},
	} {
		output, err := process.CommandContext(t.Context(), "go", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", args[0], err, output)
		}
	}
	for range 2 {
		running := process.CommandContext(t.Context(), built)
		output, err := running.StdoutPipe()
		wantErr(t, "StdoutPipe", err, nil)
		var complaints strings.Builder
		running.Stderr = &complaints
		wantErr(t, "Start", running.Start(), nil)
		line, err := bufio.NewReader(output).ReadString('\n')
		if line != "hello, world\n" {
			t.Errorf("the program says %q, %v, %s", line, err, complaints.String())
		}
		wantErr(t, "Kill", running.Process.Kill(), nil)
		_ = running.Wait() // it was killed
	}
}
