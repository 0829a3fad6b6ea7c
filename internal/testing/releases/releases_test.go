package releases

import (
	"os"
	"path/filepath"
	"testing"
)

// The gate compares a release with the one before it, also on the commit of its tag.
func TestBefore_IsTheNewestReleaseBeforeACommit(t *testing.T) {
	t.Setenv("GIT_DIR", filepath.Join(t.TempDir(), "repository"))
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_SYSTEM", os.DevNull)
	must := func(args ...string) {
		t.Helper()
		if _, err := git(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	work := t.TempDir()
	must("init", "-q", work)
	for _, tags := range [][]string{
		{"v0.1.0-rc.1"},
		{"v0.1.0", "v0.1.0-rc.2", "other"},
		{},
		{"v0.9.0", "v0.10.0"},
		{"v0.11.0-rc.1"},
	} {
		must("-c", "user.name=a", "-c", "user.email=a@example.com", "--work-tree", work,
			"commit", "-q", "--allow-empty", "-m", "a")
		for _, tag := range tags {
			must("tag", tag)
		}
	}
	for name, want := range map[string]string{
		"v0.1.0-rc.1": "", "v0.1.0": "", "HEAD~2": "v0.1.0", "v0.10.0": "v0.1.0",
		"HEAD": "v0.10.0",
	} {
		if got, err := Before(t.Context(), name); err != nil || got != want {
			t.Errorf("Before(%s) = %q, %v, want %q", name, got, err, want)
		}
	}
	if got, err := Before(t.Context(), "nothing"); err == nil {
		t.Errorf("Before of no commit = %q, want an error", got)
	}
}
