package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// publishedFile has all results that pages and pictures show: see pages.go.
const publishedFile = "published.json"

// A publication is the results of a run, with what is needed to repeat it.
type publication struct {
	Commit  string  `json:"commit"` // with "-changed" behind it, if files differed from it
	Date    string  `json:"date"`   // of its end
	Machine machine `json:"machine"`
	Plan    plan    `json:"plan"`
	Results results `json:"results"`
}

// publish writes what was found into the file. It takes the place of older results of the same
// entries, and the others stay, each with the commit and the machine of their own run.
func (f findings) publish(file string) error {
	runs, err := readPublished(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	commit, err := sourceCommit()
	if err != nil {
		return err
	}
	runs = append(without(runs, f.Results), publication{
		Commit: commit, Date: now().UTC().Format(time.DateOnly),
		Machine: f.Machine, Plan: f.Plan, Results: f.Results,
	})
	return writeFile(file, func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "\t")
		return encoder.Encode(runs)
	})
}

// without leaves out the results of the same figures, and the runs that have none left.
func without(runs []publication, newer results) []publication {
	var left []publication
	for _, run := range runs {
		run.Results = slices.DeleteFunc(run.Results, func(old result) bool {
			_, again := newer.of(old.Contender, old.Workload, old.Variant, old.Figure)
			return again
		})
		if len(run.Results) > 0 {
			left = append(left, run)
		}
	}
	return left
}

func readPublished(file string) ([]publication, error) {
	text, err := os.ReadFile(file) //nolint:gosec // The caller says where.
	if err != nil {
		return nil, err
	}
	var runs []publication
	return runs, json.Unmarshal(text, &runs)
}

// sourceCommit is the commit of the sources that are measured. Other results are no change.
func sourceCommit() (string, error) {
	commit, err := exec.Command("git", "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("which commit is measured: %w", err)
	}
	changed, err := exec.Command("git", "status", "--porcelain", "--", "..",
		":!"+publishedFile, ":!../docs", ":!../*.md").Output()
	if err != nil {
		return "", fmt.Errorf("which commit is measured: %w", err)
	}
	name := strings.TrimSpace(string(commit))
	if len(changed) > 0 {
		name += "-changed"
	}
	return name, nil
}
