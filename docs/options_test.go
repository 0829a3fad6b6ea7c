package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/golden"
)

// Each option of a package for users is on a page: the fields of its structs of options, and the
// functions that make options.
func TestPages_NameEveryOption(t *testing.T) {
	t.Parallel()
	pages := golden.ForUsers(t, ".")
	found := 0
	for _, folder := range []string{
		".", "worker", "client", "service", "service/jwtauth", "shards", "ui", "taskstore",
		"stinttest", "structures", "stintotel", "stintprom", "stintsql", "migrations",
	} {
		for _, name := range optionsOf(t, filepath.Join("..", folder)) {
			found++
			if !regexp.MustCompile(`\b` + name[strings.LastIndex(name, ".")+1:] + `\b`).
				MatchString(pages) {
				t.Errorf("no page names %s of %s", name, folder)
			}
		}
	}
	const atLeast = 70
	if found < atLeast {
		t.Errorf("there are %d options, fewer than %d: are they found?", found, atLeast)
	}
}

// optionsOf are the options that the exported declarations of a package have.
func optionsOf(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	structs := regexp.MustCompile(`^(History)?(Options|Retention|Limits|Retry|Batch)$`)
	var all []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range parsed.Decls {
			switch declared := declared.(type) {
			case *ast.FuncDecl:
				if declared.Recv == nil && strings.HasPrefix(declared.Name.Name, "With") {
					all = append(all, declared.Name.Name)
				}
			case *ast.GenDecl:
				all = append(all, fieldsOf(declared, structs)...)
			}
		}
	}
	return all
}

// fieldsOf are the exported fields of structs with such names.
func fieldsOf(declared *ast.GenDecl, structs *regexp.Regexp) []string {
	var all []string
	for _, spec := range declared.Specs {
		named, ok := spec.(*ast.TypeSpec)
		if !ok || !structs.MatchString(named.Name.Name) {
			continue
		}
		form, ok := named.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, field := range form.Fields.List {
			for _, name := range field.Names {
				if name.IsExported() {
					all = append(all, named.Name.Name+"."+name.Name)
				}
			}
		}
	}
	return all
}
