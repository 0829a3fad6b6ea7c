package stint_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Whoever looks for a test that a document names finds it.
func TestDocs_NameTestsThatExist(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	exists := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)\([tb] \*testing\.[TB]\)`)
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range function.FindAllStringSubmatch(string(text), -1) {
			exists[found[1]] = true
		}
		return err
	})
	wantErr(t, "WalkDir", err, nil)
	documents := allDocuments(t)
	named := regexp.MustCompile("`((?:Test|Benchmark)\\w+)`")
	for _, document := range documents {
		text, err := os.ReadFile(document)
		wantErr(t, "ReadFile", err, nil)
		for _, name := range named.FindAllStringSubmatch(string(text), -1) {
			if !exists[name[1]] && name[1] != "TestCost" { // which is a prefix, for -run
				t.Errorf("%s names %s, which does not exist", document, name[1])
			}
		}
	}
}

// Whoever reads R8 in a comment finds R8 in guarantees.md.
func TestDocs_RulesAreWhereTheyAreCited(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	page := filepath.Join("docs", "design", "guarantees.md")
	text, err := os.ReadFile(page)
	wantErr(t, "ReadFile", err, nil)
	rules := map[string]bool{}
	heading := regexp.MustCompile(`(?m)^### (R\d+)$`)
	for _, found := range heading.FindAllStringSubmatch(string(text), -1) {
		rules[found[1]] = true
	}
	cited := map[string]bool{}
	rule := regexp.MustCompile(`\bR\d{1,2}\b`)
	whole := regexp.MustCompile(`\bR1 to (R\d{1,2})\b`)
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != ".":
			return filepath.SkipDir
		case !slices.Contains([]string{".go", ".sql", ".md"}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, name := range rule.FindAllString(string(text), -1) {
			cited[name] = cited[name] || path != page
			if !rules[name] {
				t.Errorf("%s cites %s, which is not in %s", path, name, page)
			}
		}
		for _, last := range whole.FindAllStringSubmatch(string(text), -1) {
			if want := fmt.Sprintf("R%d", len(rules)); last[1] != want {
				t.Errorf("%s says %q, but the last rule is %s", path, last[0], want)
			}
		}
		return err
	})
	wantErr(t, "WalkDir", err, nil)
	for name := range rules {
		if !cited[name] {
			t.Errorf("%s has %s, which nothing cites", page, name)
		}
	}
	if len(rules) == 0 {
		t.Errorf("%s has no rules", page)
	}
}

// A link to a file, or to a section of a document, leads there.
func TestDocs_LinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading := regexp.MustCompile(`(?m)^#+ (.+)$`)
	for _, document := range allDocuments(t) {
		text, err := os.ReadFile(document)
		wantErr(t, "ReadFile", err, nil)
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			file, section, _ := strings.Cut(found[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			target := document
			if file != "" {
				target = filepath.Join(filepath.Dir(document), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s leads to %s: %v", document, found[1], err)
				continue
			}
			if section == "" {
				continue
			}
			text, err := os.ReadFile(target)
			wantErr(t, "ReadFile", err, nil)
			sections := map[string]bool{}
			for _, title := range heading.FindAllStringSubmatch(string(text), -1) {
				// The page of a repository leaves punctuation out of the name of a section.
				name := regexp.MustCompile(`[^\w -]`).ReplaceAllString(title[1], "")
				sections[strings.ReplaceAll(strings.ToLower(name), " ", "-")] = true
			}
			if !sections[section] {
				t.Errorf("%s leads to %s, but there is no such section", document, found[1])
			}
		}
	}
}

// allDocuments are the paths of the documents for users and contributors.
func allDocuments(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"}
	err := filepath.WalkDir("docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			all = append(all, path)
		}
		return err
	})
	wantErr(t, "WalkDir", err, nil)
	return all
}

// Each page is in the index, each decision in that of decisions, and the README fits on a few
// screens.
func TestDocs_HaveAnIndex(t *testing.T) {
	t.Parallel()
	const most = 160
	allPages, decisions := filepath.Join("docs", "README.md"),
		filepath.Join("docs", "design", "adr", "README.md")
	for _, document := range allDocuments(t) {
		index := allPages
		if filepath.Dir(document) == filepath.Dir(decisions) && document != decisions {
			index = decisions
		}
		name, err := filepath.Rel(filepath.Dir(index), document)
		wantErr(t, "Rel", err, nil)
		if document == index || strings.HasPrefix(name, "..") {
			continue
		}
		text, err := os.ReadFile(index)
		wantErr(t, "ReadFile", err, nil)
		if !strings.Contains(string(text), "]("+filepath.ToSlash(name)+")") {
			t.Errorf("%s does not name %s", index, name)
		}
	}
	readme, err := os.ReadFile("README.md")
	wantErr(t, "ReadFile", err, nil)
	if lines := strings.Count(string(readme), "\n"); lines > most {
		t.Errorf("README.md has %d lines, over %d", lines, most)
	}
}
