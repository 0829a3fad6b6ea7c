package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// noticed is where the licences of others are while the release is made.
func (r *release) noticed() string { return filepath.Join(r.work, "NOTICE.txt") }

// notices writes the licences of all modules that binaries are built from, and that of Go: most
// of them want to be with each copy.
func (r *release) notices(ctx context.Context) error {
	goroot, err := r.output(ctx, r.source, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	directories := map[string]string{"Go": goroot}
	for _, t := range r.targets {
		listed, err := r.output(ctx, r.source, "env", "CGO_ENABLED=0", "GOOS="+t.system,
			"GOARCH="+t.processor, "go", "list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}",
			"./cmd/stint")
		if err != nil {
			return err
		}
		for line := range strings.Lines(listed) {
			module, directory, ok := strings.Cut(strings.TrimSpace(line), "\t")
			if ok {
				directories[module] = directory
			}
		}
	}
	return create(r.noticed(), func(w io.Writer) error {
		_, err := io.WriteString(w, "The command stint contains software of others, under these "+
			"licences.\n")
		for _, module := range slices.Sorted(maps.Keys(directories)) {
			if err = cmp.Or(err, writeNotices(w, module, directories[module])); err != nil {
				return fmt.Errorf("%s: %w", module, err)
			}
		}
		return err
	})
}

// writeNotices writes the licences that a directory has, at least one.
func writeNotices(w io.Writer, module, directory string) error {
	var files []string
	for _, pattern := range []string{"LICEN[CS]E*", "COPYING*", "UNLICENSE*", "NOTICE*"} {
		found, err := filepath.Glob(filepath.Join(directory, pattern))
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return errors.New("it has no licence")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "\n== %s: %s\n\n%s\n", module, filepath.Base(file),
			strings.TrimSpace(string(text)))
		if err != nil {
			return err
		}
	}
	return nil
}
