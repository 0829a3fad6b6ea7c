// Package releases builds the command of other commits than the one at hand.
package releases

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Extract writes the files of a commit of this checkout into a directory, which it makes.
func Extract(ctx context.Context, commit, into string) error {
	if _, err := Commit(ctx, commit); err != nil {
		return err
	}
	top, err := git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	archive := into + ".tar"
	if _, err := git(ctx, "-C", top, "archive", "-o", archive, commit); err != nil {
		return err
	}
	if err := os.Mkdir(into, 0o700); err != nil {
		return err
	}
	_, err = Output(ctx, "", "tar", "-xf", archive, "-C", into)
	return err
}

// Commit is the hash of a commit, or of the one that a tag names.
func Commit(ctx context.Context, name string) (string, error) {
	hash, err := git(ctx, "rev-parse", "--verify", name+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("the commit %s is not in this checkout. In a shallow clone, git "+
			"fetch --unshallow gets it; else clone the repository with its history: %w", name, err)
	}
	return hash, nil
}

// Before is the newest tag of a release that is before a commit, or empty. The commit's own tag,
// and tags of what comes before a release, such as v0.1.0-rc.1, do not count.
func Before(ctx context.Context, commit string) (string, error) {
	tags, err := git(ctx, "tag", "--list", "v*", "--sort=-version:refname",
		"--merged", commit, "--no-contains", commit)
	for tag := range strings.FieldsSeq(tags) {
		if !strings.Contains(tag, "-") {
			return tag, nil
		}
	}
	return "", err
}

// git calls git. The checkout may belong to another account.
func git(ctx context.Context, args ...string) (string, error) {
	return Output(ctx, "", "git", append([]string{"-c", "safe.directory=*"}, args...)...)
}

// Build builds the command from the sources in a directory.
func Build(ctx context.Context, source, binary string, flags ...string) error {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	args := append([]string{"build", "-buildvcs=false", "-o", binary}, flags...)
	_, err = Output(ctx, source, "go", append(args, "./cmd/stint")...)
	return err
}

// Output runs a program in a directory, and returns its standard output without spaces around it.
func Output(ctx context.Context, in, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = in, append(os.Environ(), "GOWORK=off")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}
