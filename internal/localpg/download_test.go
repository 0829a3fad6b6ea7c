//go:build unix && !aix && !solaris

package localpg

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// programsJar is a package as the repository has them: a zip file that holds a tar.xz file of
// bin/postgres, bin/initdb and bin/pg_ctl, which here are scripts. This postgres says it is 18.3.
//
//go:embed testdata/programs.jar
var programsJar []byte

func TestDownload_KeepsTheProgramsInTheCache(t *testing.T) {
	t.Parallel()
	var fetched atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := programsJar
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			sum := sha256.Sum256(programsJar)
			text = []byte(hex.EncodeToString(sum[:]))
		} else {
			fetched.Add(1)
		}
		if _, err := w.Write(text); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	ctx, cache := testContext(t), persistentDir(t)
	// What a process left that was killed while it downloaded.
	unfinished := filepath.Join(cache, unfinishedPrefix+"1")
	if err := makeOpenDirs(unfinished); err != nil {
		t.Fatal(err)
	}
	find := offline()
	find.cache = cache
	find.download = repository(server.URL).download
	a, err := serverAccount("")
	if err != nil {
		t.Fatal(err)
	}
	var announced []string
	find.announce = func(format string, args ...any) {
		if fetched.Load() > 0 {
			t.Error("the download is announced after it")
		}
		announced = append(announced, fmt.Sprintf(format, args...))
	}
	for range 2 {
		got, err := find.find(ctx, a, "")
		if err != nil || got.major != "18" || !strings.HasPrefix(got.dir, cache) {
			t.Fatalf("find = %v, %v, want version 18 in %s", got, err, cache)
		}
	}
	if _, err := find.download(ctx, cache, "18", find.announce); err != nil {
		t.Fatal(err)
	}
	if got := fetched.Load(); got != 1 {
		t.Fatalf("fetched %d times, want once", got)
	}
	want := fmt.Sprintf("downloading PostgreSQL 18.3.0 from %s into %s/postgresql-18.3.0, once",
		server.URL, cache)
	if !slices.Equal(announced, []string{want}) {
		t.Errorf("announced %q, want %q", announced, want)
	}
	if _, err := os.Stat(unfinished); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Stat(%s) = %v, want it removed", unfinished, err)
	}
}

func TestDownload_LeavesNothingWhenItFails(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	cache := persistentDir(t)
	_, err := repository(server.URL).download(testContext(t), cache, "16", nil)
	if want := "download PostgreSQL 16."; err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("download = %v, want %q in it", err, want)
	}
	left, err := filepath.Glob(filepath.Join(cache, "*-*"))
	if err != nil || len(left) > 0 {
		t.Fatalf("cache holds %v, %v, want nothing", left, err)
	}
}

func TestDownload_ReturnsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel()
		<-release
	}))
	defer server.Close()
	cache := persistentDir(t)
	_, err := repository(server.URL).download(ctx, cache, "", nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("download = %v, want %v", err, context.Canceled)
	}
	close(release)
	// The next download waits until the transfer of the last one has ended.
	if _, err := repository(server.URL).download(testContext(t), cache, "", nil); err == nil {
		t.Error("download of nothing = nil, want an error")
	}
}

func TestDownload_RefusesAVersionThatIsNotOffered(t *testing.T) {
	t.Parallel()
	_, err := mavenCentral.download(testContext(t), t.TempDir(), "8.4", nil)
	if want := "PostgreSQL 8.4"; err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("download = %v, want %q in it", err, want)
	}
}
