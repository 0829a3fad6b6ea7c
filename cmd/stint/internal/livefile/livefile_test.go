package livefile_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-tasks/stint/cmd/stint/internal/livefile"
)

func TestFile_FollowsItsFilesAndKeepsTheLastGoodValue(t *testing.T) {
	t.Parallel()
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(a, "1")
	write(b, "2")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		parses := 0
		parse := func(texts [][]byte) (string, error) {
			parses++
			text := string(bytes.Join(texts, nil))
			if strings.Contains(text, "bad") {
				return "", errors.New("bad text")
			}
			return text, nil
		}
		f, err := livefile.Open(slog.New(slog.NewTextHandler(&log, nil)), parse, a, b)
		if err != nil {
			t.Fatal(err)
		}
		want := func(value string, parsed int) {
			t.Helper()
			time.Sleep(time.Second) // of the bubble
			if got := f.Get(); got != value || parses != parsed {
				t.Errorf("Get = %q after %d parses, want %q after %d", got, parses, value, parsed)
			}
		}
		want("12", 1)
		write(b, "34")
		if got := f.Get(); got != "12" {
			t.Errorf("Get = %q within the second", got)
		}
		want("134", 2)
		write(a, "bad")
		want("134", 3)
		want("134", 4) // tried again, in silence
		if n := strings.Count(log.String(), "bad text"); n != 1 {
			t.Errorf("the log says %d times that the text is bad: %s", n, log.String())
		}
		if err := os.Remove(a); err != nil {
			t.Fatal(err)
		}
		want("134", 4)
		write(a, "5")
		want("534", 5)
		want("534", 5)
	})
}

func TestOpen_FailsWithoutFileOrValue(t *testing.T) {
	t.Parallel()
	parse := func([][]byte) (int, error) { return 0, errors.ErrUnsupported }
	_, err := livefile.Open(slog.Default(), parse, filepath.Join(t.TempDir(), "missing"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open of a missing file = %v", err)
	}
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = livefile.Open(slog.Default(), parse, path)
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Open of a file without a value = %v", err)
	}
}
