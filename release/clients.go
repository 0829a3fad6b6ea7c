package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// python makes a wheel and an sdist, by the hooks that pip calls.
func (r *release) python(ctx context.Context) error {
	dir := filepath.Join(r.source, "client", "python")
	err := says(filepath.Join(dir, "pyproject.toml"), fmt.Sprintf("\nversion = %q\n", r.version))
	if err != nil {
		return err
	}
	const build = `import sys
from setuptools import build_meta
out = sys.argv[1] # which the first hook changes
build_meta.build_sdist(out)
build_meta.build_wheel(out)`
	program, err := interpreter(ctx)
	if err != nil {
		return err
	}
	if err := r.run(ctx, dir, nil, program, "-c", build, r.out); err != nil {
		return err
	}
	return repack(filepath.Join(r.out, "stint-"+r.version+".tar.gz"), r.time,
		filepath.Join(r.work, "sdist"))
}

// interpreter is a Python that can build packages.
func interpreter(ctx context.Context) (string, error) {
	for _, program := range []string{"/usr/bin/python3", "python3"} {
		if exec.CommandContext(ctx, program, "-c", "import setuptools, wheel").Run() == nil {
			return program, nil
		}
	}
	return "", errors.New("there is no Python with setuptools and wheel here: " +
		"apt-get install python3-setuptools python3-wheel")
}

// npm makes the archive of the client for TypeScript.
func (r *release) npm(ctx context.Context) error {
	dir := filepath.Join(r.source, "client", "typescript")
	err := says(filepath.Join(dir, "package.json"), fmt.Sprintf("\"version\": %q,", r.version))
	if err != nil {
		return err
	}
	if err := r.run(ctx, dir, nil, "npm", "ci", "--silent", "--no-audit", "--no-fund"); err != nil {
		return err
	}
	return r.run(ctx, dir, nil, "npm", "pack", "--silent", "--pack-destination", r.out)
}

// says refuses a file that names another version.
func says(path, want string) error {
	text, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(text), want) {
		err = fmt.Errorf("%s does not say %s", filepath.Base(path), strings.TrimSpace(want))
	}
	return err
}
