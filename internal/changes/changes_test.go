package changes_test

import (
	"testing"

	"github.com/stint-tasks/stint/internal/changes"
)

// A text is a cursor only if it is the one of its place.
func FuzzParsePlace(f *testing.F) {
	for _, text := range []string{"1/1", "-1/-1", "9223372036854775807/1", "1/1x", " 1/1", "1/01"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if place, ok := changes.ParsePlace(text); ok && text != "" && place.Cursor() != text {
			t.Errorf("%q is taken for %+v", text, place)
		}
	})
}
