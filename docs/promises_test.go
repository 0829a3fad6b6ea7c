package docs_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

var printed = flag.Bool("print", false, "print the tests of each promise")

// A promise is a row "| G1 | text |" or a heading "### R1" of a document.
type promise struct {
	id      string // a letter and a number
	page    string // below docs/
	section string // the title above it
	place   int    // in the order of the documents
	tests   []string
}

// Each promise has a test, and each test that cites a promise cites one that a document makes.
// go test -v ./docs -run Promises -print prints the tests of each promise.
func TestPromises_HaveTests(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	all, faults := promisesOf(os.DirFS("."))
	faults = append(faults, addTests(os.DirFS(".."), all)...)
	for _, p := range all {
		if len(p.tests) == 0 {
			faults = append(faults, fmt.Sprintf("no test proves %s of %s", p.id, p.page))
		}
	}
	for _, fault := range faults {
		t.Error(fault)
	}
	if len(all) == 0 {
		t.Error("the documents promise nothing")
	}
	if *printed {
		fmt.Print(testsOf(all))
	}
}

func TestPromises_FaultsAreFound(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	all, faults := promisesOf(fstest.MapFS{
		"a.md":          file("## One\n| G1 | kept |\n| G2 | untested |\n"),
		"design/b.md":   file("### R1\n| G1 | twice |\n"),
		"reference/c.h": file("| G9 | not of a page |\n"),
	})
	faults = append(faults, addTests(fstest.MapFS{
		"x/a_test.go": file("package x\n\n// Does it.\n// Proves G1, R1.\nfunc TestA() {}\n" +
			"\n// Proves G9.\nfunc BenchmarkB() {}\n"),
		"b_test.go": file("package b\n\n// Proves G1\nfunc TestC() {}\n"),
	}, all)...)
	for i, want := range []string{"G1 is in", "b_test.go: 1 lines", "BenchmarkB cites G9"} {
		if len(faults) != 3 || !strings.Contains(faults[i], want) {
			t.Fatalf("the faults are %q, want %d to have %q", faults, i, want)
		}
	}
	if len(all) != 3 || len(all["G1"].tests) != 1 || len(all["G2"].tests) != 0 {
		t.Errorf("the promises are %+v", all)
	}
}

// promisesOf finds the promises of the documents, by their IDs, and what is wrong with these.
func promisesOf(documents fs.FS) (map[string]*promise, []string) {
	all := map[string]*promise{}
	var faults []string
	row := regexp.MustCompile(`^\| ([GLR]\d+) \| |^### (R\d+)$`)
	err := fs.WalkDir(documents, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".md" {
			return err
		}
		text, err := fs.ReadFile(documents, name)
		section := ""
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			if title, found := strings.CutPrefix(line, "## "); found {
				section = title
			}
			found := row.FindStringSubmatch(line)
			if found == nil {
				continue
			}
			id := found[1] + found[2]
			if all[id] != nil {
				faults = append(faults,
					fmt.Sprintf("%s is in %s and in %s", id, all[id].page, name))
			}
			all[id] = &promise{id: id, page: name, section: section, place: len(all)}
		}
		return err
	})
	if err != nil {
		faults = append(faults, err.Error())
	}
	return all, faults
}

// addTests adds the tests of a tree to the promises that they cite.
func addTests(tree fs.FS, all map[string]*promise) []string {
	var faults []string
	citing := regexp.MustCompile(`(?m)^\s*// Proves [GLR]\d`)
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && name != ".":
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		cited := len(citing.FindAll(text, -1))
		for _, declared := range file.Decls {
			function, ok := declared.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines, ids := citations(function.Doc.Text())
			cited -= lines
			for _, id := range ids {
				if all[id] == nil {
					faults = append(faults, fmt.Sprintf("%s: %s cites %s, which is on no page",
						name, function.Name.Name, id))
				} else if !slices.Contains(all[id].tests, function.Name.Name) {
					all[id].tests = append(all[id].tests, function.Name.Name)
				}
			}
		}
		if cited != 0 {
			faults = append(faults, fmt.Sprintf("%s: %d lines \"Proves ...\" do not have the form"+
				" \"// Proves G1, L2.\", or are not in the comment of a function", name, cited))
		}
		return nil
	})
	if err != nil {
		faults = append(faults, err.Error())
	}
	return faults
}

// citations are the lines such as "Proves G1, L2." of a comment, and the promises that they cite.
func citations(comment string) (lines int, ids []string) {
	line := regexp.MustCompile(`(?m)^Proves ([GLR]\d+(?:, [GLR]\d+)*)\.$`)
	found := line.FindAllStringSubmatch(comment, -1)
	for _, match := range found {
		ids = append(ids, strings.Split(match[1], ", ")...)
	}
	return len(found), ids
}

// testsOf lists the tests of promises, in the order of the documents.
func testsOf(all map[string]*promise) string {
	var list strings.Builder
	ordered := slices.SortedFunc(maps.Values(all), func(a, b *promise) int {
		return cmp.Compare(a.place, b.place)
	})
	var last promise
	for _, p := range ordered {
		if p.page != last.page || p.section != last.section {
			fmt.Fprintf(&list, "\n%s: %s\n", p.page, p.section)
		}
		slices.Sort(p.tests)
		fmt.Fprintf(&list, "%s\t%s\n", p.id, strings.Join(p.tests, " "))
		last = *p
	}
	return list.String()
}
