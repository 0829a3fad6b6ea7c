//go:build unix && !aix && !solaris

package localpg

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

var errOffline = errors.New("no route to the network")

// offline is a finder that finds nothing.
func offline() finder {
	return finder{
		getenv: environ("PATH=/nowhere:."),
		download: func(context.Context, string, string, announcer) (string, error) {
			return "", errOffline
		},
	}
}

func TestStart_SaysWhatToInstall(t *testing.T) {
	t.Parallel()
	_, err := startWith(testContext(t), Config{}, offline())
	if !errors.Is(err, errOffline) {
		t.Fatalf("Start = %v, want it to wrap %v", err, errOffline)
	}
	want := "no PostgreSQL found: install it (Debian: apt-get install postgresql; macOS: brew " +
		"install postgresql), or set STINT_PG_BIN to the directory of its programs " +
		"(no route to the network)"
	if err.Error() != want {
		t.Fatalf("Start = %v, want %s", err, want)
	}
}

func TestStart_RefusesAWrongDirectoryOfPrograms(t *testing.T) {
	t.Parallel()
	good := realPrograms(t)
	other := fakePrograms(t, "1", "", "")
	script := []byte("#!/bin/sh\necho something else\n")
	if err := os.WriteFile(filepath.Join(other, "postgres"), script, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		"/nowhere": "STINT_PG_BIN: stat /nowhere/postgres: no such file or directory",
		other:      "is not PostgreSQL",
	} {
		find := offline()
		find.getenv = environ(binEnv+"="+dir, "PATH="+good.dir)
		_, err := startWith(testContext(t), Config{}, find)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start with STINT_PG_BIN=%s = %v, want %q in it", dir, err, want)
		}
	}
}

func TestStart_NamesBothVersionsWhenTheDataAreOfAnother(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := persistentDir(t)
	mustClose(t, mustStart(t, dir))
	major := realPrograms(t).major

	find := offline()
	find.getenv = environ("PATH=" + fakePrograms(t, "99", "", ""))
	_, err := startWith(testContext(t), Config{Dir: dir}, find)
	want := "the data were made by PostgreSQL " + major + ", but only PostgreSQL 99 was found"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("Start = %v, want %q in it", err, want)
	}
	mustStart(t, dir) // The data are untouched.
}

func TestFind_PrefersTheVersionOfTheData(t *testing.T) {
	t.Parallel()
	path := fakePrograms(t, "15", "", "")
	older, newer := fakePrograms(t, "9.6", "", ""), fakePrograms(t, "17", "", "")
	a, err := serverAccount("")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ path, major, want string }{
		"no data: PATH first":          {path, "", path},
		"no data: the newest version":  {"", "", newer},
		"data of an installed version": {path, "9.6", older},
		"data of the version in PATH":  {path, "15", path},
	}
	for name, test := range tests {
		find := offline()
		find.getenv = environ("PATH=" + test.path)
		find.usual = []string{older, newer, "/nowhere/*/bin"}
		got, err := find.find(testContext(t), a, test.major)
		if err != nil || got.dir != test.want {
			t.Errorf("%s: find = %v, %v, want %s", name, got, err, test.want)
		}
	}
}

func TestFind_DownloadsWhereNothingIsInstalled(t *testing.T) {
	t.Parallel()
	a, err := serverAccount("")
	if err != nil {
		t.Fatal(err)
	}
	programs := fakePrograms(t, "16", "", "")
	find := offline()
	find.download = func(_ context.Context, cache, major string, _ announcer) (string, error) {
		if cache != "/cache" || major != "16" {
			t.Errorf("download(%q, %q), want /cache and 16", cache, major)
		}
		return programs, nil
	}
	find.cache = "/cache"
	got, err := find.find(testContext(t), a, "16")
	if want := (binaries{dir: programs, major: "16"}); err != nil || got != want {
		t.Fatalf("find = %v, %v, want %v", got, err, want)
	}
}

func TestMajorVersion_ReadsEveryKindOfRelease(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres (PostgreSQL) 16.3 (Debian 16.3-1.pgdg120+1)\n": "16",
		"postgres (PostgreSQL) 9.6.24\n":                         "9.6",
		"postgres (PostgreSQL) 19beta1\n":                        "19",
		"postgres (PostgreSQL) 19devel\n":                        "19",
		"postgres (PostgreSQL) \n":                               "",
		"something else\n":                                       "",
	} {
		if got := majorVersion(text); got != want {
			t.Errorf("majorVersion(%q) = %q, want %q", text, got, want)
		}
	}
}
