package main

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

//go:embed list/*.txt
var lists embed.FS

// A mutant is one fault, made on purpose in one file of Stint.
type mutant struct {
	Engine, Name string
	// wrong is what the fault does, in a sentence.
	wrong string
	// file is the path in the repository of the file that is changed.
	file    string
	changes []change
	// pkg and tests are the tests that find the fault.
	pkg   string
	tests []string
	// equivalent says why no test can find it, if none can. It is not run then.
	equivalent string
	// open says why it is not known which tests find it.
	open string
}

// A change takes lines out of a file, and puts others in their place. If old is there several
// times, nth says which of them is meant, from 1 on.
type change struct {
	old, new []string
	nth      int
}

// errStale says that the lines to change are not in the file any more.
var errStale = errors.New("the lines are not in the file: write the mutant anew for those that are")

// all returns the mutants of all lists, in the order of the lists' names.
func all() ([]*mutant, error) {
	names, err := fs.Glob(lists, "list/*.txt")
	if err != nil {
		return nil, err
	}
	var mutants []*mutant
	known := map[string]bool{}
	for _, name := range names {
		text, err := lists.ReadFile(name)
		if err != nil {
			return nil, err
		}
		of, err := parse(strings.TrimSuffix(path.Base(name), ".txt"), text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, m := range of {
			if known[m.Name] {
				return nil, fmt.Errorf("%s: there are two mutants %q: rename one", name, m.Name)
			}
			known[m.Name] = true
		}
		mutants = append(mutants, of...)
	}
	return mutants, nil
}

// parse reads the list of an engine. doc.go describes its form.
func parse(engine string, text []byte) (mutants []*mutant, err error) {
	var m *mutant
	var c *change // the last one of m
	end := func() error {
		if m == nil {
			return nil
		}
		return m.check()
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		name, isFirst := strings.CutPrefix(line, "mutant: ")
		switch {
		case line == "" || line[0] == '#':
		case isFirst:
			err = end()
			m = &mutant{Engine: engine, Name: name, changes: make([]change, 1)}
			mutants, c = append(mutants, m), &m.changes[0]
		case m == nil:
			err = errors.New("comes ahead of the first mutant")
		case line == "@@":
			m.changes = append(m.changes, change{})
			c = &m.changes[len(m.changes)-1]
		case line[0] == ' ':
			c.old, c.new = append(c.old, line[1:]), append(c.new, line[1:])
		case line[0] == '-':
			c.old = append(c.old, line[1:])
		case line[0] == '+':
			c.new = append(c.new, line[1:])
		default:
			err = m.set(line, c)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return mutants, errors.Join(lines.Err(), end())
}

// set sets what a line says, a word and a colon ahead of its value.
func (m *mutant) set(line string, c *change) (err error) {
	word, value, _ := strings.Cut(line, ": ")
	switch word {
	case "wrong":
		m.wrong = value
	case "file":
		m.file = value
	case "nth":
		c.nth, err = strconv.Atoi(value)
	case "test":
		names := strings.Fields(value)
		m.pkg, m.tests = names[0], names[1:]
	case "equivalent":
		m.equivalent = value
	case "open":
		m.open = value
	default:
		err = fmt.Errorf("%q is none of mutant, wrong, file, nth, test, equivalent and open", word)
	}
	return err
}

func (m *mutant) check() error {
	isNone := func(c change) bool { return slices.Equal(c.old, c.new) }
	switch {
	case m.wrong == "", m.file == "":
		return fmt.Errorf("mutant %s needs the lines wrong and file", m.Name)
	case slices.ContainsFunc(m.changes, isNone):
		return fmt.Errorf("mutant %s changes nothing: it needs lines with - or +", m.Name)
	case (len(m.tests) == 0) == (m.equivalent == ""):
		return fmt.Errorf("mutant %s needs a line test, with a package and tests, "+
			"or a line equivalent that says why there are none", m.Name)
	}
	return nil
}

// changed returns the text of the mutant's file with the fault in it.
func (m *mutant) changed(root string) (string, error) {
	file, err := os.ReadFile(filepath.Join(root, m.file)) //nolint:gosec // a list names it
	if err != nil {
		return "", fmt.Errorf("%w: %w", errStale, err)
	}
	text := string(file)
	for _, c := range m.changes {
		if text, err = c.in(text); err != nil {
			return "", err
		}
	}
	return text, nil
}

// in makes a change in a text.
func (c *change) in(text string) (string, error) {
	lines := func(of []string) string { return strings.Join(append(of, ""), "\n") }
	old, text := "\n"+lines(c.old), "\n"+text // whole lines are compared
	parts := strings.Split(text, old)
	switch found := len(parts) - 1; {
	case found == 0, found < c.nth:
		return "", errStale
	case found > 1 && c.nth == 0:
		return "", fmt.Errorf("the lines are in the file %d times: say nth, or add lines", found)
	}
	at := max(c.nth, 1)
	before, after := strings.Join(parts[:at], old), strings.Join(parts[at:], old)
	return strings.TrimPrefix(before+"\n"+lines(c.new)+after, "\n"), nil
}
