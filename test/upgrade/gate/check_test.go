package main

import (
	"slices"
	"testing"
)

func TestCompare_NamesWhatIsLostAndWhatIsPerformedTwice(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		journal     string
		ended       int
		again       bool
		lost, twice int
	}{
		"a try": {journal: "a\t1\told\t0\n", ended: 1},
		"two, of which one failed": {
			journal: "a\t1\told\t0\na\t2\tnew\t1\n", ended: 2, again: true,
		},
		"two, of which one was killed": {
			journal: "a\t1\told\t9\na\t2\tnew\t1\n", ended: 2,
		},
		"the second, as the first was killed at once": {journal: "a\t2\tnew\t1\n", ended: 2},
		"none":                       {lost: 1},
		"none that is stored":        {journal: "a\t1\told\t0\n", lost: 1},
		"one that was not performed": {journal: "a\t1\told\t9\n", ended: 2, lost: 1},
		"two without a reason": {
			journal: "a\t1\told\t0\na\t2\tnew\t1\n", ended: 2, twice: 1,
		},
		"one that began twice": {
			journal: "a\t1\told\t9\na\t1\tnew\t1\n", ended: 1, twice: 1,
		},
	} {
		c := check{
			inserted: map[string]bool{"a": of.again}, killed: map[string]bool{"9": true},
			Check: Check{Performed: map[string]int{}},
		}
		ended := map[string]int{}
		if of.ended > 0 {
			ended["a"] = of.ended
		}
		if err := c.compare(of.journal, ended); err != nil {
			t.Fatal(err)
		}
		got := []int{c.Lost, c.Twice, len(c.Faults)}
		if want := []int{of.lost, of.twice, of.lost + of.twice}; !slices.Equal(got, want) {
			t.Errorf("%s: lost, twice and faults are %v, want %v: %q", name, got, want, c.Faults)
		}
	}
}
