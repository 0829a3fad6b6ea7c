package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// versionHere is the version that the files of this commit name.
func versionHere(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../client/python/pyproject.toml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^version = "(.*)"$`).FindSubmatch(text)
	if found == nil {
		t.Fatal("pyproject.toml names no version")
	}
	return string(found[1])
}

// A release is made of files that name its version, so all must name the same.
func TestVersions_AreTheSameInAllFiles(t *testing.T) {
	t.Parallel()
	want := versionHere(t)
	for path, patterns := range map[string][]string{
		"CHANGELOG.md":                   {`(?m)^## (\d\S*) - `}, // the newest is the first
		"deploy/compose.yaml":            {`stint:(\d[^}]*)\}`},
		"deploy/chart/Chart.yaml":        {`(?m)^version: (\S+)$`, `(?m)^appVersion: (\S+)$`},
		"client/typescript/package.json": {`(?m)^  "version": "(.*)",$`},
		"client/typescript/package-lock.json": {
			`^\{\n  "name": .*\n  "version": "(.*)",`,
			`\n    "": \{\n      "name": .*\n      "version": "(.*)",`,
		},
		"client/typescript/README.md": {`client-(\d.*?)\.tgz`},
		"docs/operations/install.md":  {`[v_:-](\d+\.\d+\.\d+)`},
	} {
		text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(path)))
		if err != nil {
			t.Fatal(err)
		}
		for _, pattern := range patterns {
			found := regexp.MustCompile(pattern).FindAllSubmatch(text, -1)
			if path == "CHANGELOG.md" && len(found) > 1 {
				found = found[:1]
			}
			if len(found) == 0 {
				t.Errorf("%s names no version by %s", path, pattern)
			}
			for _, match := range found {
				if got := string(match[1]); got != want {
					t.Errorf("%s names the version %q, and pyproject.toml %q", path, got, want)
				}
			}
		}
	}
}
