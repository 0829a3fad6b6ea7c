package stint_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A circle is a set of files of one package each of which needs every other one, directly or not.
// Nobody can read one of them without the rest, so circles stay small.
func TestHouse_CirclesOfFilesAreSmall(t *testing.T) {
	t.Parallel()
	const most = 12
	for _, dir := range []string{
		".", "client", "cmd/stint/internal/command", "service", "shards", "ui", "worker",
	} {
		needs := needsOfFiles(t, dir)
		for _, circle := range circles(needs) {
			if len(circle) > most {
				t.Errorf("%d files of %s form a circle, over %d:\n%s", len(circle), dir, most,
					strings.Join(described(circle, needs), "\n"))
			}
		}
	}
}

// needsOfFiles says for each file of a package which other ones declare what it names. Types of
// other packages are unknown, so a method that is called on the result of one of their functions
// does not count.
func needsOfFiles(t *testing.T, dir string) map[string]map[string][]string {
	t.Helper()
	set, names := token.NewFileSet(), []string{}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	wantErr(t, "Glob", err, nil)
	files := []*ast.File{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		wantErr(t, "ParseFile", err, nil)
		files, names = append(files, file), append(names, path)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: emptyPackages{}, Error: func(error) {}}
	pkg, _ := config.Check(dir, set, files, &info) // fails, since what is imported is empty
	needs := map[string]map[string][]string{}
	for _, name := range names {
		needs[name] = map[string][]string{}
	}
	if len(names) == 0 {
		t.Fatalf("%s has no files", dir)
	}
	for use, object := range info.Uses {
		from, to := set.Position(use.Pos()).Filename, set.Position(object.Pos()).Filename
		if object.Pkg() == pkg && to != from && to != "" &&
			!slices.Contains(needs[from][to], object.Name()) {
			needs[from][to] = append(needs[from][to], object.Name())
		}
	}
	return needs
}

// emptyPackages imports packages without anything in them.
type emptyPackages struct{}

func (emptyPackages) Import(path string) (*types.Package, error) {
	pkg := types.NewPackage(path, filepath.Base(path))
	pkg.MarkComplete()
	return pkg, nil
}

// circles are the strongly connected parts of a graph with more than one node.
func circles(needs map[string]map[string][]string) [][]string {
	reached := map[string]map[string]bool{}
	for from := range needs {
		reached[from] = map[string]bool{}
		for todo := []string{from}; len(todo) > 0; todo = todo[1:] {
			for to := range needs[todo[0]] {
				if !reached[from][to] {
					reached[from][to], todo = true, append(todo, to)
				}
			}
		}
	}
	found, seen := [][]string{}, map[string]bool{}
	for from := range needs {
		if seen[from] || !reached[from][from] {
			continue
		}
		circle := []string{}
		for to := range reached[from] {
			if reached[to][from] {
				circle, seen[to] = append(circle, to), true
			}
		}
		slices.Sort(circle)
		found = append(found, circle)
	}
	return found
}

// described says what the files of a circle need of each other.
func described(circle []string, needs map[string]map[string][]string) []string {
	lines := []string{}
	for _, from := range circle {
		for _, to := range circle {
			if names := needs[from][to]; len(names) > 0 {
				slices.Sort(names)
				lines = append(lines, fmt.Sprintf("%s needs %s of %s", filepath.Base(from),
					strings.Join(names, ", "), filepath.Base(to)))
			}
		}
	}
	return lines
}
