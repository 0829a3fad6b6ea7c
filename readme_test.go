package stint

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadme_ProgramCompiles(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, found := strings.Cut(string(readme), "```go\npackage main\n")
	program, _, closed := strings.Cut(program, "```")
	if !found || !closed {
		t.Fatal("README.md holds no program")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte("package main\n"+program), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput()
	if err != nil {
		t.Errorf("the program of README.md: %v\n%s", err, output)
	}
}
