package typescript_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// The archive of npm pack is installed into an empty project, whose compiler knows no types of
// Node. The examples of the README are checked there, and the first one runs.
func TestPackage_IsInstalledFromItsArchiveWithItsTypes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t)
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	project := t.TempDir()
	run(t, ".", "npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", project)
	archives, err := filepath.Glob(filepath.Join(project, "*.tgz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("npm pack has made %v, %v", archives, err)
	}
	write(t, project, "package.json", `{"private": true, "type": "module"}`)
	run(t, project, "npm", "install", "--offline", "--no-audit", "--no-fund", archives[0])
	installed, err := os.ReadDir(filepath.Join(project, "node_modules"))
	if err != nil || len(installed) != 2 { // .package-lock.json, and the scope of the package
		t.Errorf("the archive has installed %v, %v", installed, err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```ts\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(examples) < 3 {
		t.Fatalf("the README has %d examples", len(examples))
	}
	write(t, project, "first.ts",
		strings.ReplaceAll(examples[0][1], "http://localhost:7330", r.address))
	for i, example := range examples[1:] {
		write(t, project, fmt.Sprintf("other%d.ts", i), example[1])
	}
	write(t, project, "tsconfig.json", `{"compilerOptions": {"strict": true, "types": [],
		"noUncheckedIndexedAccess": true, "target": "es2022", "module": "nodenext"}}`)
	run(t, project, "node", filepath.Join(home, "node_modules/typescript/bin/tsc"))
	if said := run(t, project, "node", "first.js"); said != "completed sent small photo.png 2\n" {
		t.Errorf("the example has written %q", said)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
