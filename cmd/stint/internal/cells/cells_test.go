package cells

import "testing"

func TestCutMiddle_KeepsBothEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text  string
		cells int
		want  string
	}{
		{"", 7, ""},
		{"1234567", 7, "1234567"},
		{"12345678", 7, "123…678"},
		{"12345678", 6, "123…78"},
		{"12345678", 1, "…"},
		{"12345678", -1, "…"},
		{"一二三", 7, "一二三"},
		{"一二三四", 7, "一…三四"},
		{"e\u0301e\u0301345678", 7, "e\u0301e\u03013…678"},
	} {
		if got := CutMiddle(test.text, test.cells); got != test.want {
			t.Errorf("CutMiddle(%q, %d) = %q, want %q", test.text, test.cells, got, test.want)
		}
	}
}
