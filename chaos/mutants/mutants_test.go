package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// So refactorings keep the lists up to date.
func TestMutants_ApplyAndNameTestsThatExist(t *testing.T) {
	t.Parallel()
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	mutants, err := all()
	if err != nil {
		t.Fatal(err)
	}
	if len(mutants) == 0 {
		t.Fatal("there are no mutants")
	}
	tests := map[string]map[string]bool{}
	for _, m := range mutants {
		if _, err := m.changed(root); err != nil {
			t.Errorf("list/%s.txt, mutant %s of %s: %v", m.Engine, m.Name, m.file, err)
		}
		if m.pkg != "" && tests[m.pkg] == nil {
			tests[m.pkg] = testsIn(t, filepath.Join(root, m.pkg))
		}
		for _, name := range m.tests {
			if !tests[m.pkg][name] {
				t.Errorf("list/%s.txt, mutant %s: there is no %s in %s: name a test that finds it",
					m.Engine, m.Name, name, m.pkg)
			}
		}
	}
}

var testPattern = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testsIn returns the tests of a package.
func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range testPattern.FindAllSubmatch(text, -1) {
			names[string(found[1])] = true
		}
	}
	return names
}

// oneMutant is a list in which text stands for the file and the lines of a mutant.
func oneMutant(t *testing.T, text string) (*mutant, error) {
	t.Helper()
	list := "# a comment\nmutant: m\nwrong: Something.\nfile: f\ntest: ./p TestA\n" + text
	mutants, err := parse("e", []byte(list))
	if err != nil {
		return nil, err
	}
	return mutants[0], nil
}

func TestChanged_ReplacesTheLinesThatAreMeant(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const file = "one\ntwo\nthree\none\ntwo\n"
	if err := os.WriteFile(filepath.Join(root, "f"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for lines, want := range map[string]string{
		"-three\n":                           "one\ntwo\none\ntwo\n",
		"-three\n+3\n":                       "one\ntwo\n3\none\ntwo\n",
		" three\n+and\n one\n":               "one\ntwo\nthree\nand\none\ntwo\n",
		"nth: 1\n-two\n+2\n":                 "one\n2\nthree\none\ntwo\n",
		"nth: 2\n one\n-two\n+":              "one\ntwo\nthree\none\n\n",
		"-three\n+3\n@@\nnth: 2\n-one\n+1\n": "one\ntwo\n3\n1\ntwo\n",
	} {
		m, err := oneMutant(t, lines)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.changed(root); got != want || err != nil {
			t.Errorf("%q makes %q, %v, want %q", lines, got, err, want)
		}
	}
	for lines, want := range map[string]string{
		"-four\n+4\n":        "not in the file",
		"-thre\n+3\n":        "not in the file",
		"nth: 3\n-two\n+2\n": "not in the file",
		"-two\n+2\n":         "2 times",
	} {
		m, err := oneMutant(t, lines)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.changed(root); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q makes %q, %v, want an error with %q", lines, got, err, want)
		}
	}
}

func TestParse_RefusesWhatSaysNothing(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]string{
		" the same\n":                           "changes nothing",
		"-a\n+b\nequivalent: it is\n":           "or a line equivalent",
		"-a\n+b\nfound: by nobody\n":            "is none of",
		"-a\n+b\nnth: two\n":                    "invalid syntax",
		"-a\n+b\n\nmutant: n\n-a\n+b\n":         "needs the lines wrong and file",
		"-a\n+b\n\nmutant: n\nwrong: So.\n-a\n": "needs the lines wrong and file",
	} {
		if _, err := oneMutant(t, lines); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", lines, err, want)
		}
	}
}

func TestJudged_TellsWhatARunMeans(t *testing.T) {
	t.Parallel()
	failure := os.ErrInvalid // of go test
	aPasses, over := event{"pass", "TestA", ""}, event{"fail", "", ""}
	for name, run := range map[string]struct {
		events []event
		err    error
		want   verdict
		by     string
	}{
		"a test fails": {
			[]event{{"pass", "TestA", ""}, {"fail", "TestB/x", ""}, {"fail", "TestB", ""}},
			failure, found, "TestB",
		},
		"all pass":          {[]event{{"pass", "TestA", ""}, {"pass", "", ""}}, nil, survived, ""},
		"none runs":         {[]event{{"pass", "", ""}}, nil, unjudged, ""},
		"all are skipped":   {[]event{{"skip", "TestA", ""}, {"pass", "", ""}}, nil, unjudged, ""},
		"it breaks off":     {[]event{aPasses, over}, failure, unjudged, ""},
		"it does not build": {[]event{{"build-fail", "", ""}, over}, failure, unbuilt, ""},
	} {
		got, by := judged(run.events, run.err)
		if got != run.want || strings.Join(by, " ") != run.by {
			t.Errorf("if %s: %s by %q, want %s by %q", name, got, by, run.want, run.by)
		}
	}
}

func TestChoose_TakesTheSameSampleForTheSameSeed(t *testing.T) {
	t.Parallel()
	sample := func(seed string) (names []string) {
		mutants, err := all()
		if err != nil {
			t.Fatal(err)
		}
		o := options{sample: 8, seed: seed}
		chosen, err := o.choose(t.Context(), "", mutants)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range chosen {
			names = append(names, m.Name)
		}
		return names
	}
	one := strings.Join(sample("a"), " ")
	if again := strings.Join(sample("a"), " "); again != one || strings.Count(one, " ") != 7 {
		t.Errorf("samples %q and %q, want the same 8", one, again)
	}
	if other := strings.Join(sample("b"), " "); other == one {
		t.Error("another seed takes the same sample")
	}
}
