// Command release makes the files of a release from a commit, and publishes nothing:
//
//	go run -C release . -version v0.1.0 -out /tmp/release
//
// It builds from a clone of the commit, so changes that are not committed do not matter. The same
// commit, with the same version of Go, gives the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	var version, commit, out, chosen string
	flag.StringVar(&version, "version", "",
		"the `version`, such as v0.1.0 (default: the commit's tag)")
	flag.StringVar(&commit, "commit", "HEAD", "the `commit` to build")
	flag.StringVar(&out, "out", "", "the `directory` for the files, which must "+
		"not exist; absolute if go run has -C")
	flag.StringVar(&chosen, "targets", strings.Join(targets(), ","),
		"the `systems` and processors to build the command for")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, version, commit, out, strings.Split(chosen, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A release is one that is being made.
type release struct {
	version string    // without the v
	commit  string    // its hash
	time    time.Time // of the commit, and of all files
	source  string    // a clone of the commit
	work    string    // for what is no file of the release
	out     string
	targets []target
}

func run(
	ctx context.Context, version, commit, out string, chosen []string,
) (err error) {
	if out == "" {
		return errors.New("-out is missing")
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "stint-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a directory of ours
	r, err := open(ctx, version, commit, work)
	if err != nil {
		return err
	}
	for _, name := range chosen {
		if !slices.Contains(targets(), name) {
			return fmt.Errorf("no target %q: there are %q", name, targets())
		}
		system, processor, _ := strings.Cut(name, "/")
		r.targets = append(r.targets, target{system, processor})
	}
	if err := os.Mkdir(out, 0o755); err != nil {
		return err
	}
	r.out = out
	for _, step := range []struct {
		name string
		make func(context.Context) error
	}{
		{"binaries", r.binaries},
		{"man pages and completions", r.manual},
		{"licences", r.notices},
		{"archives", r.archives},
		{"lists of modules", r.modules},
		{"Debian packages", r.debian},
		{"image", r.image},
		{"Python", r.python},
		{"npm", r.npm},
		{"notes", r.notes},
		{"checksums", r.checksums},
	} {
		begun := time.Now()
		if err := step.make(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", step.name, time.Since(begun).Round(time.Second))
	}
	return nil
}

// open clones the commit into a directory.
func open(ctx context.Context, version, commit, work string) (*release, error) {
	r := &release{work: work, source: filepath.Join(work, "source")}
	at, err := r.output(ctx, ".", "git", "rev-parse", "--verify", commit+"^{commit}")
	if err != nil {
		return nil, err
	}
	if version == "" {
		version, err = r.output(ctx, ".", "git", "describe", "--tags", "--exact-match", at)
		if err != nil {
			return nil, fmt.Errorf("%w; -version names it", err)
		}
	}
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9a-z.]+)?$`).MatchString(version) {
		return nil, fmt.Errorf("invalid version %q: must be like v0.1.0 or v0.1.0-rc.1", version)
	}
	r.version, r.commit = version[1:], at
	root, err := r.output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"clone", "-q", "--shared", "--no-checkout", root, r.source},
		{"-C", r.source, "checkout", "-q", "--detach", at},
		// go build takes the version from the tag.
		{"-C", r.source, "-c", "tag.gpgSign=false", "tag", "-f", version},
	} {
		if err := r.run(ctx, ".", nil, "git", args...); err != nil {
			return nil, err
		}
	}
	text, err := r.output(ctx, r.source, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return nil, err
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	r.time = time.Unix(seconds, 0).UTC()
	return r, err
}

// run runs a program in a directory, and shows what it says if it fails.
func (r *release) run(
	ctx context.Context, dir string, env []string, name string, args ...string,
) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(r.environment(), env...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, output)
	}
	return nil
}

func (r *release) environment() []string {
	return append(os.Environ(), fmt.Sprint("SOURCE_DATE_EPOCH=", r.time.Unix()),
		"GOFLAGS=-trimpath", "GOWORK=off", "GOENV=off", "GOAMD64=v1", "GOARM64=v8.0")
}

// output returns what a program prints.
func (r *release) output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, r.environment()
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(text)), nil
}
