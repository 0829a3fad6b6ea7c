package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A recorder keeps what a test would have failed with.
type recorder struct {
	testing.TB
	faults []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// A list that lacked what was added would promise less than a release has.
func TestKept_NamesWhatIsGoneAndWhatTheListLacks(t *testing.T) { //nolint:paralleltest // -update
	path := filepath.Join(t.TempDir(), "kept.txt")
	if err := os.WriteFile(path, []byte("a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gone := path + `: "b" is gone, which the last release has: bring it back, or take the line ` +
		`away if no release has it`
	lacks := path + ` lacks "c", which -update adds`
	for _, of := range []struct {
		update bool
		lines  []string
		want   []string
	}{
		{false, []string{"a", "b"}, nil},
		{false, []string{"a", "c"}, []string{gone, lacks}},
		{true, []string{"a", "c"}, []string{gone}},
		{false, []string{"c", "b", "a"}, nil}, // b was not taken away
	} {
		*update = of.update
		r := &recorder{TB: t}
		if Kept(r, path, of.lines); !slices.Equal(r.faults, of.want) {
			t.Errorf("with %q, update %t: Kept says %q, want %q", of.lines, of.update, r.faults,
				of.want)
		}
	}
	*update = false
}
