package groups

import (
	"slices"
	"testing"

	"github.com/stint-tasks/stint/internal/layout"
)

func TestNear_GoesBothWaysFromTheNode(t *testing.T) {
	t.Parallel()
	var edges []layout.Edge
	for _, pair := range [][2]int{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {1, 5}, {6, 3}} {
		edges = append(edges, layout.Edge{From: pair[0], To: pair[1]})
	}
	near, cut := Near(2, 7, edges, 1, 10)
	if slices.Sort(near); !slices.Equal(near, []int{1, 2, 3}) || cut {
		t.Errorf("Near = %v, %v", near, cut)
	}
	near, cut = Near(2, 7, edges, 9, 10) // neither the sister 5 nor 6
	if slices.Sort(near); !slices.Equal(near, []int{0, 1, 2, 3, 4}) || cut {
		t.Errorf("Near = %v, %v", near, cut)
	}
	if near, cut = Near(2, 7, edges, 9, 2); len(near) != 2 || near[0] != 2 || !cut {
		t.Errorf("Near = %v, %v", near, cut)
	}
}

func TestCommonPrefix_EndsAtASeparator(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		texts []string
		want  string
	}{
		{nil, ""},
		{[]string{"alone"}, "alone"},
		{[]string{"page/1", "page/12"}, "page/"},
		{[]string{"page/12", "page/123"}, "page/"},
		{[]string{"photo-1", "photo-2"}, "photo-"},
		{[]string{"abc", "abd"}, ""},
	} {
		if got := CommonPrefix(test.texts); got != test.want {
			t.Errorf("CommonPrefix(%q) = %q, want %q", test.texts, got, test.want)
		}
	}
}
