package tokens_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/service/tokens"
)

func newToken(t *testing.T, path, name string) string {
	t.Helper()
	token, err := tokens.New(path, name)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	return token
}

func read(t *testing.T, path string) (string, tokens.Tokens) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("ReadFile = %v", err)
	}
	parsed, err := tokens.Parse(text)
	if err != nil {
		t.Fatalf("Parse = %v", err)
	}
	return string(text), parsed
}

func TestNew_KeepsTheHashOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	first, second := newToken(t, path, "mailer"), newToken(t, path, "mailer")
	third := newToken(t, path, "shop")
	text, parsed := read(t, path)
	for token, want := range map[string]string{
		first: "mailer", second: "mailer", third: "shop", first + "x": "", "": "", "mailer": "",
	} {
		if name, ok := parsed.Name(token); name != want || ok != (want != "") {
			t.Errorf("Name = %q, %v, want %q", name, ok, want)
		}
		if want != "" && (strings.Contains(text, token) || len(token) < 40) {
			t.Error("the file has the token itself, or the token is short")
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
}

func TestRemove_EndsOneTokenAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("# of the shop\n\n# end"), 0o640); err != nil {
		t.Fatal(err)
	}
	first, second := newToken(t, path, "mailer"), newToken(t, path, "mailer")
	entries, err := tokens.List(path)
	if err != nil || len(entries) != 2 || entries[0].Name != "mailer" || entries[0].Made.IsZero() {
		t.Fatalf("List = %+v, %v", entries, err)
	}
	if err := tokens.Remove(path, entries[0].ID); err != nil {
		t.Fatalf("Remove = %v", err)
	}
	text, parsed := read(t, path)
	if _, ok := parsed.Name(first); ok {
		t.Error("a token that was removed is valid")
	}
	if _, ok := parsed.Name(second); !ok || !strings.HasPrefix(text, "# of the shop\n\n# end\n") {
		t.Errorf("the rest of the file has changed: %q", text)
	}
	if err := tokens.Remove(path, entries[0].ID); !errors.Is(err, tokens.ErrUnknown) {
		t.Errorf("Remove again = %v", err)
	}
}

// A crash cannot leave half of a change of a single character, and no line that somebody else has
// written is written again.
func TestRemove_ChangesOneCharacterAndTheEndOfTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	newToken(t, path, "mailer")
	removed := newToken(t, path, "\u00e9cole")
	kept := newToken(t, path, "shop")
	entries, err := tokens.List(path)
	if err != nil || len(entries) != 3 {
		t.Fatalf("List = %+v, %v", entries, err)
	}
	before, _ := read(t, path)
	if err := tokens.Remove(path, entries[1].ID); err != nil {
		t.Fatalf("Remove = %v", err)
	}
	text, parsed := read(t, path)
	want := strings.Replace(before, "\u00e9", "##", 1)
	end, ok := strings.CutPrefix(text, want)
	if !ok || !strings.HasPrefix(end, "# removed "+entries[1].ID) || strings.Count(end, "\n") != 1 {
		t.Errorf("the file is %q, want %q and a line", text, want)
	}
	_, removedIs := parsed.Name(removed)
	if _, keptIs := parsed.Name(kept); removedIs || !keptIs {
		t.Errorf("the token that was removed is valid: %v, another one: %v", removedIs, keptIs)
	}
}

func TestNew_AndRemoveMayRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	const n = 100
	path := filepath.Join(t.TempDir(), "tokens")
	for range n {
		newToken(t, path, "old")
	}
	old, err := tokens.List(path)
	if err != nil {
		t.Fatalf("List = %v", err)
	}
	failed := make(chan error, 2*n)
	for _, entry := range old {
		go func() { failed <- tokens.Remove(path, entry.ID) }()
		go func() {
			_, err := tokens.New(path, "new")
			failed <- err
		}()
	}
	for range 2 * n {
		if err := <-failed; err != nil {
			t.Errorf("New or Remove = %v", err)
		}
	}
	left, err := tokens.List(path)
	if err != nil {
		t.Fatalf("List = %v", err)
	}
	for _, entry := range left {
		if entry.Name != "new" {
			t.Errorf("the token %s was removed and is there", entry.ID)
		}
	}
	if len(left) != n {
		t.Errorf("the file has %d tokens, want %d", len(left), n)
	}
}

func TestNew_RefusesWhatItCouldNotReadAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	for _, name := range []string{"", "a b", "a\nb", "#a", "a\x00", strings.Repeat("a", 256)} {
		if _, err := tokens.New(path, name); err == nil {
			t.Errorf("New(%.20q) succeeds", name)
		}
	}
	if err := os.WriteFile(path, []byte("this is no file of tokens\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.New(path, "a"); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("New in another kind of file = %v", err)
	}
}

// Whatever is in a file, a token is known only by the hash of the whole of it.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "# a", "a sha256:00 2026-01-01T00:00:00Z", "a\u2003b\n",
		"ann sha256:" + strings.Repeat("0f", 32) + " 2026-01-01T00:00:00Z\nbob",
	} {
		f.Add([]byte(text), "stint_x")
	}
	f.Fuzz(func(t *testing.T, text []byte, token string) {
		parsed, err := tokens.Parse(text)
		name, known := parsed.Name(token)
		sum := sha256.Sum256([]byte(token))
		if known && !strings.Contains(strings.ToLower(string(text)), hex.EncodeToString(sum[:])) {
			t.Errorf("%q is known as %q", token, name)
		}
		for hash, entry := range parsed {
			if entry.Name == "" || entry.Name[0] == '#' ||
				!strings.HasPrefix(hex.EncodeToString(hash[:]), strings.ToLower(entry.ID)) {
				t.Errorf("an entry is %+v, %v", entry, err)
			}
		}
	})
}
