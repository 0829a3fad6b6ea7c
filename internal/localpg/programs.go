//go:build unix && !aix && !solaris

package localpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// binEnv names the directory of the programs, and ends the search for them.
const binEnv = "STINT_PG_BIN"

// binaries are the programs of one version of PostgreSQL.
type binaries struct {
	dir   string
	major string // As PG_VERSION has it: "16", and "9.6" before version 10.
}

func (b binaries) path(program string) string { return filepath.Join(b.dir, program) }

// finder finds the programs of PostgreSQL.
type finder struct {
	getenv func(string) string
	usual  []string // Patterns of directories where packages put the programs.
	cache  string   // Holds what was downloaded.

	// download puts PostgreSQL of that major version, or the newest one it knows for "", below the
	// cache and returns the directory of the programs. It announces that first, unless announce is
	// nil.
	download func(ctx context.Context, cache, major string, announce announcer) (string, error)
	announce announcer
}

type announcer = func(format string, args ...any)

func systemFinder() finder {
	fetch := mavenCentral.download
	cache, err := places{getenv: os.Getenv, goos: runtime.GOOS, root: os.Geteuid() == 0}.cache()
	if err != nil {
		// It matters only where something has to be downloaded.
		fetch = func(context.Context, string, string, announcer) (string, error) { return "", err }
	}
	return finder{
		getenv: os.Getenv,
		usual: []string{
			"/usr/lib/postgresql/*/bin",
			"/usr/pgsql-*/bin",
			"/opt/homebrew/opt/postgresql*/bin",
			"/usr/local/opt/postgresql*/bin",
			"/Applications/Postgres.app/Contents/Versions/*/bin",
		},
		cache:    cache,
		download: fetch,
	}
}

// find returns programs that the account can run, of the major version of the data if there are
// data ("" otherwise).
func (f finder) find(ctx context.Context, a account, major string) (binaries, error) {
	if dir := f.getenv(binEnv); dir != "" {
		found, err := inspect(ctx, a, dir)
		if err != nil {
			return binaries{}, fmt.Errorf("%s: %w", binEnv, err)
		}
		return choose([]binaries{found}, major)
	}
	var found []binaries
	var failure error // Of programs that are there and do not run.
	try := func(dirs []string) []binaries {
		var good []binaries
		for _, dir := range dirs {
			if !filepath.IsAbs(dir) {
				continue // As in a shell, "" in PATH would be the current directory.
			}
			if one, err := inspect(ctx, a, dir); err == nil {
				good = append(good, one)
			} else if !errors.Is(err, os.ErrNotExist) {
				failure = cmp.Or(failure, err)
			}
		}
		return good
	}
	found = try(filepath.SplitList(f.getenv("PATH")))
	patterns := slices.Clone(f.usual)
	if f.cache != "" {
		patterns = append(patterns, filepath.Join(f.cache, downloadedPrefix+"*", "bin"))
	}
	usual := try(expand(patterns))
	slices.SortStableFunc(usual, func(a, b binaries) int {
		return cmp.Compare(versionNumber(b.major), versionNumber(a.major))
	})
	if found = append(found, usual...); len(found) > 0 {
		return choose(found, major)
	}
	if err := ctx.Err(); err != nil {
		return binaries{}, err
	}
	dir, err := f.download(ctx, f.cache, major, f.announce)
	if err == nil {
		found = try([]string{dir})
	}
	if err != nil && failure != nil {
		err = fmt.Errorf("%w; %w", failure, err)
	}
	if len(found) == 0 {
		return binaries{}, fmt.Errorf("no PostgreSQL found: install it (Debian: apt-get install "+
			"postgresql; macOS: brew install postgresql), or set %s to the directory of its "+
			"programs (%w)", binEnv, cmp.Or(err, failure))
	}
	return choose(found, major)
}

func expand(patterns []string) []string {
	var dirs []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err == nil { // The patterns are constants but for the cache directory.
			dirs = append(dirs, found...)
		}
	}
	return dirs
}

// choose returns the first programs of that major version, or the first of all for "".
func choose(found []binaries, major string) (binaries, error) {
	var seen []string
	for _, candidate := range found {
		if major == "" || candidate.major == major {
			return candidate, nil
		}
		if !slices.Contains(seen, candidate.major) {
			seen = append(seen, candidate.major)
		}
	}
	return binaries{}, fmt.Errorf("the data were made by PostgreSQL %s, but only PostgreSQL %s "+
		"was found: install PostgreSQL %s, or set %s to the directory of its programs",
		major, strings.Join(seen, " and "), major, binEnv)
}

// inspect runs postgres in dir to learn its version, as the account that will run it.
func inspect(ctx context.Context, a account, dir string) (binaries, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return binaries{}, err
	}
	found := binaries{dir: dir}
	for _, program := range []string{"postgres", "initdb"} {
		if _, err := os.Stat(found.path(program)); err != nil {
			return binaries{}, err
		}
	}
	cmd := exec.CommandContext(ctx, found.path("postgres"), "--version")
	cmd.Dir = "/"
	cmd.SysProcAttr = a.attributes()
	text, err := cmd.Output()
	if err != nil {
		return binaries{}, fmt.Errorf("run %s as user %d: %w", found.path("postgres"), a.uid, err)
	}
	if found.major = majorVersion(string(text)); found.major == "" {
		return binaries{}, fmt.Errorf("%s is not PostgreSQL: its version is %q",
			found.path("postgres"), strings.TrimSpace(string(text)))
	}
	return found, nil
}

// majorVersion reads "postgres (PostgreSQL) 16.3 (Debian 16.3-1)", also 9.6.24 and 19beta1.
func majorVersion(text string) string {
	_, version, ok := strings.Cut(text, "(PostgreSQL) ")
	if !ok {
		return ""
	}
	digits := func(s string) string {
		return s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
	}
	major := digits(version)
	if versionNumber(major) < 10 {
		minor := digits(strings.TrimPrefix(version[len(major):], "."))
		return strings.Trim(major+"."+minor, ".")
	}
	return major
}

func versionNumber(major string) float64 {
	number, err := strconv.ParseFloat(major, 64)
	if err != nil {
		return 0
	}
	return number
}
