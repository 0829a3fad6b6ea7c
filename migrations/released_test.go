package migrations_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// released are the checksums of the versions that a release has, by their files, from
// testdata/released.txt, which sha256sum writes.
func released(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/released.txt")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("testdata/released.txt has the line %q", line)
		}
		sums[name] = sum
	}
	return sums
}

// Databases have what a released version made of them, and no later one would look for less or
// more. All versions but the newest are released.
func TestVersions_NeverChangeOnceReleased(t *testing.T) {
	t.Parallel()
	sums := released(t)
	for name, want := range sums {
		text, err := os.ReadFile(filepath.Join("versions", name))
		if err != nil {
			t.Error(err)
		} else if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != want {
			t.Errorf("%s is released and has changed: undo that, and make a new version", name)
		}
	}
	files, err := filepath.Glob("versions/*.sql")
	if err != nil || len(files) < 2 {
		t.Fatalf("there are %d versions, %v", len(files), err)
	}
	slices.Sort(files)
	for _, file := range files[:len(files)-1] {
		if name := filepath.Base(file); sums[name] == "" {
			t.Errorf("testdata/released.txt lacks %s, which is not the newest", name)
		}
	}
}

// What a tag has is released.
func TestVersions_AreReleasedWithATag(t *testing.T) {
	t.Parallel()
	git := func(args ...string) []string {
		out, err := exec.CommandContext(t.Context(), "git", args...).Output()
		if err != nil {
			t.Skipf("git %q: %v: it needs a clone of the repository", args, err)
		}
		return strings.Fields(string(out))
	}
	sums := released(t)
	for _, tag := range git("tag", "--list", "v*") {
		for _, path := range git("ls-tree", "--name-only", tag, "versions/") {
			if name := filepath.Base(path); sums[name] == "" {
				t.Errorf("%s has %s: write its sum into testdata/released.txt", tag, name)
			}
		}
	}
}
