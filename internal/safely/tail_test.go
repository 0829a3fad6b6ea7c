package safely_test

import (
	"testing"

	"github.com/stint-tasks/stint/internal/safely"
)

func TestTail_CutsAtARune(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		written []string
		max     int
		want    string
	}{
		{[]string{"abc"}, 4, "abc"},
		{[]string{"abc", "def"}, 4, "cdef"},
		{[]string{"aé", "éé"}, 5, "éé"},
		{[]string{"ééééééééé"}, 5, "éé"}, // the first rune is cut before it is text
		{[]string{"\xff\xffa\x00"}, 9, "\ufffda\ufffd"},
		{[]string{"\xffabcd\x00"}, 6, "bcd\ufffd"},
		{nil, 5, ""},
	} {
		log := safely.NewTail(test.max)
		for _, text := range test.written {
			_, _ = log.Write([]byte(text))
		}
		if got := log.Text(test.max); got != test.want {
			t.Errorf("%q, at most %d: got %q, want %q", test.written, test.max, got, test.want)
		}
	}
}
