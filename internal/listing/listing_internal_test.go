package listing

import (
	"slices"
	"strings"
	"testing"
)

// What begins with a prefix sorts ahead of the end of that prefix, and all else that is behind the
// prefix does not.
func TestPrefixEnd_IsBehindThePrefix(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"a": "b", "az": "a{", "é": "ê", "\ud7ff": "\ue000", "a\U0010ffff": "b",
	} {
		end := prefixEnd(prefix)
		if end == nil || *end != want {
			t.Errorf("the end of %q is %v, want %q", prefix, end, want)
		} else if strings.Compare(prefix+"\U0010ffff\U0010ffff", *end) >= 0 {
			t.Errorf("something begins with %q and is not ahead of %q", prefix, *end)
		}
	}
	for _, prefix := range []string{"", "\U0010ffff"} {
		if end := prefixEnd(prefix); end != nil {
			t.Errorf("the end of %q is %q, want none", prefix, *end)
		}
	}
}

// A walk goes on from its cursor, wherever it is.
func TestWalk_GoesOnFromItsCursor(t *testing.T) {
	t.Parallel()
	for _, want := range []Want{
		{NewestFirst: true},
		{},
		{Actor: "actor"},
		{Actions: []string{"b", "a", "b"}, States: []State{Completed, Ready, Scheduled}},
	} {
		walk, ok := New(want)
		if !ok {
			t.Fatalf("New(%+v) refuses the cursor", want)
		}
		for left := len(walk.Sources); left > 0; left-- {
			if got := goOnFrom(t, want, walk); len(got.Sources) != left || got.Place != walk.Place {
				t.Errorf("%+v goes on with %d sources at %+v", want, len(got.Sources), got.Place)
			}
			walk.Place = Place{Began: true, Key: 5, At: 6, Rank: -7}
			if walk.byID {
				walk.Place = Place{ID: "id/with/slashes"}
			}
			got := goOnFrom(t, want, walk)
			if got.Place != walk.Place || got.Sources[0].Name != walk.Sources[0].Name {
				t.Errorf("%+v goes on at %+v, want %+v", want, got.Place, walk.Place)
			}
			walk.Next()
		}
	}
}

func goOnFrom(t *testing.T, want Want, walk *Walk) *Walk {
	t.Helper()
	want.After = walk.Cursor()
	got, ok := New(want)
	if !ok {
		t.Fatalf("New refuses its own cursor %q", want.After)
	}
	return got
}

func TestNew_RefusesWhatIsNoCursor(t *testing.T) {
	t.Parallel()
	for _, after := range []string{
		"x", "-1", "1", "0/1", "0/1/2", "0/1/2/x", "0/1/2/3/4", "9999",
		"0/1/9000000000000000000/0", "0/1/-9000000000000000000/0",
	} {
		if _, ok := New(Want{NewestFirst: true, After: after}); ok {
			t.Errorf("New takes %q for a cursor", after)
		}
	}
}

// Of several actions each has its queue, once.
func TestNew_WalksEachQueueOnce(t *testing.T) {
	t.Parallel()
	walk, _ := New(Want{Actions: []string{"b", "a", "b"}, States: []State{Ready}})
	var actions []any
	for _, source := range walk.Sources {
		actions = append(actions, source.Args(Place{})[0])
	}
	if !slices.Equal(actions, []any{"a", "b"}) {
		t.Errorf("the queues are %v", actions)
	}
}

// A text that is taken for a cursor is one: the walk goes on from there.
func FuzzNew(f *testing.F) {
	for _, after := range []string{"", "0", "0/1/2/3", "-1", "1/9223372036854775807/-1/0", "a"} {
		f.Add(after, true)
		f.Add(after, false)
	}
	f.Fuzz(func(t *testing.T, after string, newest bool) {
		want := Want{NewestFirst: newest, Actor: "a", After: after}
		walk, ok := New(want)
		if !ok {
			return
		}
		want.After = walk.Cursor()
		if again, ok := New(want); !ok || again.Place != walk.Place ||
			len(again.Sources) != len(walk.Sources) {
			t.Errorf("from %q a walk is at %+v, and then %+v", after, walk.Place, again)
		}
	})
}
