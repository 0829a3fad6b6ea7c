package stint_test

import (
	"encoding/json"
	"maps"
	"os"
	command "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// licences are those that a module may have, by words that no other licence has. Words may be
// broken into lines anywhere.
var licences = map[string][]string{
	"MIT": {
		"Permission is hereby granted, free of charge, to any person obtaining a copy of this " +
			"software and associated documentation files",
		"The above copyright notice and this permission notice shall be included in all copies",
	},
	"BSD": {
		"Redistribution and use in source and binary forms, with or without modification, are " +
			"permitted provided that the following conditions are met",
	},
	"Apache-2.0": {
		"Apache License Version 2.0, January 2004",
		"TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION",
	},
	"ISC": {
		"Permission to use, copy, modify, and/or distribute this software for any purpose with " +
			"or without fee is hereby granted",
	},
	"MPL-2.0":       {"Mozilla Public License Version 2.0"},
	"Unlicense":     {"This is free and unencumbered software released into the public domain"},
	"public domain": {"You can do whatever you want with these files"},
}

// others are words of conditions that an allowed licence does not have.
var others = []string{
	"GNU GENERAL PUBLIC", "GNU LESSER GENERAL PUBLIC", "GNU AFFERO", "Commons Clause",
	"Business Source License", "Server Side Public License", "Elastic License",
	"advertising materials mentioning",
}

// licenceOf returns the licence of a text, or nothing if it is none that a module may have.
func licenceOf(text string) string {
	plain := strings.ToLower(strings.Join(strings.Fields(text), " "))
	has := func(words string) bool { return strings.Contains(plain, strings.ToLower(words)) }
	if slices.ContainsFunc(others, has) {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(licences)) {
		if !slices.ContainsFunc(licences[name], func(words string) bool { return !has(words) }) {
			return name
		}
	}
	return ""
}

// Every module that a program with Stint, or the command, is built from may be used by anybody.
func TestLicences_LetAnybodyUseWhatStintIsBuiltFrom(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	out, err := command.CommandContext(t.Context(), "go", "list", "-deps",
		"-f", "{{with .Module}}{{.Path}}\t{{.Dir}}{{end}}", "./...").Output()
	wantErr(t, "go list", err, nil)
	directories := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if module, directory, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			directories[module] = directory
		}
	}
	const pgx = "github.com/jackc/pgx/v5"
	if directories[pgx] == "" {
		t.Fatalf("go list names no %s: %q", pgx, directories)
	}
	for module, directory := range directories {
		var files []string
		for _, name := range []string{"LICEN[CS]E*", "COPYING*", "UNLICENSE"} {
			some, err := filepath.Glob(filepath.Join(directory, name))
			wantErr(t, "Glob", err, nil)
			files = append(files, some...)
		}
		found := map[string]bool{}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil {
				found[licenceOf(string(text))] = true
			}
		}
		if len(found) == 0 || found[""] {
			t.Errorf("%s has a licence that is not known to be free, in %q", module, files)
		}
	}
}

// The clients in other languages are built from nothing that users would have to install, and what
// tests of them use is free, too.
func TestLicences_LetAnybodyUseTheClients(t *testing.T) {
	t.Parallel()
	project, err := os.ReadFile("client/python/pyproject.toml")
	wantErr(t, "ReadFile", err, nil)
	if !strings.Contains(string(project), "\ndependencies = []\n") {
		t.Error("the client for Python has dependencies: look at their licences here")
	}
	text, err := os.ReadFile("client/typescript/package-lock.json")
	wantErr(t, "ReadFile", err, nil)
	var lock struct {
		Packages map[string]struct {
			License string
			Dev     bool
		}
	}
	wantErr(t, "Unmarshal", json.Unmarshal(text, &lock), nil)
	free := []string{"Apache-2.0", "MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "0BSD"}
	for name, of := range lock.Packages {
		if name != "" && !of.Dev || !slices.Contains(free, of.License) {
			t.Errorf("%q has the licence %q, and is for development only: %v", name, of.License,
				of.Dev)
		}
	}
}

func TestLicences_KnowThoseThatAreNotFree(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("LICENSE")
	wantErr(t, "ReadFile", err, nil)
	mit := strings.Join(licences["MIT"], ".\n")
	for text, want := range map[string]string{
		string(own): "Apache-2.0", mit: "MIT", "": "", "All rights reserved.": "",
		mit + " Commons Clause":       "",
		"GNU GENERAL\nPUBLIC LICENSE": "",
	} {
		if got := licenceOf(text); got != want {
			t.Errorf("%.40q is taken for %q, want %q", text, got, want)
		}
	}
}
