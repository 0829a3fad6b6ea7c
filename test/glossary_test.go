package stint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A term is a word of the glossary.
type term struct {
	word  string
	names []string // exported names that stand for it
	not   []string // words that no exported name uses for it
}

// The names that the glossary gives are exported, and no exported name uses another word for the
// same thing.
func TestGlossary_HoldsForExportedNames(t *testing.T) {
	t.Parallel()
	exported := map[string]bool{}
	for _, dir := range []string{
		".", "worker", "structures", "migrations", "stinttest", "stintprom", "stintotel", "service",
		"client",
	} {
		prefix := dir + "."
		if dir == "." {
			prefix = ""
		}
		for _, name := range exportedNames(t, dir) {
			exported[prefix+name] = true
		}
	}
	terms := glossary(t)
	camel := regexp.MustCompile(`[A-Z]+[a-z]*`)
	for _, term := range terms {
		for _, name := range term.names {
			if !exported[name] {
				t.Errorf("the glossary has %s for %s, which is not exported", name, term.word)
			}
		}
		for name := range exported {
			for _, word := range camel.FindAllString(name, -1) {
				word = strings.ToLower(word)
				if slices.Contains(term.not, word) || slices.Contains(term.not, word+"s") {
					t.Errorf("%s calls a %s a %s", name, term.word, word)
				}
			}
		}
	}
	if len(terms) == 0 || len(exported) == 0 {
		t.Errorf("found %d terms and %d exported names", len(terms), len(exported))
	}
}

// glossary reads the table of words in glossary.md, and adds the words that names do not use.
func glossary(t *testing.T) []term {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("docs", "glossary.md"))
	wantErr(t, "ReadFile", err, nil)
	name := regexp.MustCompile("`([\\w.]+)`")
	var terms []term
	for _, cells := range rowsOfWords(string(text)) {
		row := term{word: cells[0]}
		for _, found := range name.FindAllStringSubmatch(cells[2], -1) {
			row.names = append(row.names, found[1])
		}
		terms = append(terms, row)
	}
	for word, not := range map[string]string{
		"task":        "job message",
		"action":      "kind",
		"body":        "payload args",
		"actor":       "consumer",
		"own":         "fetch dequeue", // prose says fetch for a call of OwnTasks
		"token":       "receipt",
		"try":         "attempt",
		"lease":       "visibility",
		"deadline":    "expiration",
		"return":      "ack nack",
		"result":      "output",
		"completed":   "succeeded",
		"skipped":     "omitted",
		"predecessor": "parent upstream",
		"dependent":   "child downstream",
		"edge":        "link",
		"condition":   "predicate",
		"signal":      "event",
		"network":     "workflow",
		"limits":      "quota",
		"service":     "gateway",
		"batch":       "flight",
		"retention":   "ttl",
	} {
		terms = append(terms, term{word: word, not: strings.Fields(not)})
	}
	return terms
}

// rowsOfWords are the cells of the table of words.
func rowsOfWords(text string) [][]string {
	const columns = 6
	_, table, _ := strings.Cut(text, "## Words\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var rows [][]string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != columns+2 || strings.Contains(line, "---") {
			continue
		}
		cells = cells[1 : columns+1] // without what is before and behind the table
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows[1:] // without the heading
}

// exportedNames are those of a package: its functions, types, constants and variables, and the
// methods and fields of its types as Type.Name.
func exportedNames(t *testing.T, dir string) []string {
	t.Helper()
	files, err := fs.Glob(os.DirFS(dir), "*.go")
	wantErr(t, "Glob", err, nil)
	var names []string
	add := func(owner string, idents ...*ast.Ident) {
		for _, ident := range idents {
			if ident.IsExported() {
				names = append(names, owner+ident.Name)
			}
		}
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, 0)
		wantErr(t, "ParseFile", err, nil)
		for _, declared := range file.Decls {
			switch declared := declared.(type) {
			case *ast.FuncDecl:
				add(receiver(declared), declared.Name)
			case *ast.GenDecl:
				addSpecs(add, declared.Specs)
			}
		}
	}
	return names
}

func addSpecs(add func(owner string, idents ...*ast.Ident), specs []ast.Spec) {
	for _, spec := range specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			add("", spec.Names...)
		case *ast.TypeSpec:
			add("", spec.Name)
			structure, ok := spec.Type.(*ast.StructType)
			if !ok || !spec.Name.IsExported() {
				continue
			}
			for _, field := range structure.Fields.List {
				add(spec.Name.Name+".", field.Names...)
			}
		}
	}
}

// receiver is the type of a method and a dot, or nothing for a function.
func receiver(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return ""
	}
	of := function.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	if ident, ok := of.(*ast.Ident); ok && ident.IsExported() {
		return ident.Name + "."
	}
	return "unexported."
}
