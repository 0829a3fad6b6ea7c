package docs_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stint-tasks/stint/internal/golden"
)

// page names the tests of each promise. go test ./docs -run Promises -update writes it.
const page = "reference/tests.md"

// A promise is a row "| G1 | text |" or a heading "### R1" of a document.
type promise struct {
	id      string // a letter and a number
	page    string // below docs/
	section string // the title above it
	tests   []string
}

// The page of tests is up to date, each promise has a test, and each test that cites a promise
// cites one that a document makes.
func TestPromises_HaveTests(t *testing.T) {
	t.Parallel()
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
	golden.Want(t, page, testsPage(all))
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
		if err != nil || path.Ext(name) != ".md" || name == page {
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
			all[id] = &promise{id: id, page: name, section: section}
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

// testsPage writes the tests of promises, page by page and section by section.
func testsPage(all map[string]*promise) string {
	var written strings.Builder
	written.WriteString(`# Tests of the promises

This page names the tests that prove each promise: guarantees (G), limits (L) and rules (R).
` + "`go test -run '^TestName$' ./...`" + ` runs one of them.

The comment of a test cites the promises that it proves, as in ` + "`// Proves G14.`" + ` From these
comments ` + "`go test ./docs -run Promises -update`" + ` generates the page.
`)
	ordered := make([]*promise, 0, len(all))
	for _, p := range all {
		ordered = append(ordered, p)
	}
	first := map[string]int{} // of a section: its lowest number, since new ones are the highest
	for _, p := range ordered {
		if n, found := first[p.page+p.section]; !found || number(p.id) < n {
			first[p.page+p.section] = number(p.id)
		}
	}
	slices.SortFunc(ordered, func(a, b *promise) int {
		return cmp.Or(cmp.Compare(a.id[0], b.id[0]),
			cmp.Compare(first[a.page+a.section], first[b.page+b.section]),
			cmp.Compare(number(a.id), number(b.id)))
	})
	var last promise
	for _, p := range ordered {
		if p.page != last.page || p.section != last.section {
			name := strings.TrimSuffix(path.Base(p.page), ".md")
			fmt.Fprintf(&written, "\n## %s: %s\n\n| promise | tests |\n| --- | --- |\n",
				strings.ToUpper(name[:1])+name[1:], p.section)
		}
		slices.Sort(p.tests)
		anchor := p.section
		if p.id[0] == 'R' {
			anchor = p.id // each rule has a heading
		}
		fmt.Fprintf(&written, "| [%s](../%s#%s) | `%s` |\n", p.id, p.page,
			strings.ReplaceAll(strings.ToLower(anchor), " ", "-"),
			strings.Join(p.tests, "`, `"))
		last = *p
	}
	return written.String()
}

func number(id string) int {
	n, _ := strconv.Atoi(id[1:]) // digits, by the expression that found it
	return n
}
