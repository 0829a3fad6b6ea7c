package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// path is that of the module.
const path = "github.com/stint-tasks/stint"

// Whoever has Go installs the command by its tag, and builds the first program of the README with
// the library, from what a proxy of modules has: the commit without the modules in it.
func TestModule_IsInstalledByItsTag(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it compiles everything: -short")
	}
	version := "v" + versionHere(t)
	dir := t.TempDir()
	goes := stranger(t, proxy(t, version), dir)

	goes(dir, "install", path+"/cmd/stint@"+version)
	said := command(t, dir, filepath.Join(dir, "bin", "stint"), "version")
	if want := "stint " + version + "\n"; !strings.HasPrefix(said, want) {
		t.Errorf("the command says %q, want %q at its beginning", said, want)
	}

	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(readme), "\n```go\n")
	program, _, _ = strings.Cut(program, "\n```\n")
	first := filepath.Join(dir, "first")
	if err := create(filepath.Join(first, "main.go"), func(w io.Writer) error {
		_, err := io.WriteString(w, program)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	goes(first, "mod", "init", "example.com/first")
	goes(first, "mod", "tidy")
	goes(first, "build")
	goes(first, "build", "-mod=mod", path+"/...") // what else the module has
}

// proxy lays out a proxy that has the module at one version, and returns its address.
func proxy(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, path, "@v", name) }
	root := strings.TrimSpace(command(t, ".", "git", "rev-parse", "--show-toplevel"))
	info, err := json.Marshal(map[string]string{"Version": version})
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{
		"list": version + "\n", version + ".info": string(info),
		version + ".mod": command(t, root, "git", "show", "HEAD:go.mod"),
	}
	for name, text := range texts {
		err = cmp.Or(err, create(at(name), func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		}))
	}
	err = cmp.Or(err, create(at(version+".zip"), func(w io.Writer) error {
		return zip.CreateFromVCS(w, module.Version{Path: path, Version: version}, root, "HEAD", "")
	}))
	if err != nil {
		t.Fatal(err)
	}
	return "file://" + dir
}

// stranger calls go in a directory, as an account that has no modules yet. Those of others come
// from this account's cache, where their checksums have been checked, else from its proxy.
func stranger(t *testing.T, proxy, home string) (goes func(dir string, args ...string)) {
	t.Helper()
	of := func(name string) string {
		return strings.TrimSpace(command(t, ".", "go", "env", name))
	}
	env := append(os.Environ(), "GOWORK=off", "GOENV=off", "GOSUMDB=off",
		"GOFLAGS=-trimpath -modcacherw", "GOBIN="+filepath.Join(home, "bin"),
		"GOMODCACHE="+filepath.Join(home, "modules"),
		fmt.Sprintf("GOPROXY=%s,file://%s/cache/download,%s", proxy, of("GOMODCACHE"),
			of("GOPROXY")))
	return func(dir string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, env
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, output)
		}
	}
}
