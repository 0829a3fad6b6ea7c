package testrun_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Three turns try each pair once, and each turn all second members.
func TestThird_TakesTurns(t *testing.T) { //nolint:paralleltest // sets a variable
	for _, sizes := range [][2]int{{3, 3}, {10, 3}, {10, 2}, {5, 4}, {17, 1}} {
		as, bs := numbers(sizes[0]), numbers(sizes[1])
		all := testrun.Pairs(as, bs)
		t.Setenv("STINT_TEST_LONG", "1")
		if got := testrun.Third(all, 1); !slices.Equal(got, all) {
			t.Errorf("of %v every repetition has %d cases, want %d", sizes, len(got), len(all))
		}
		t.Setenv("STINT_TEST_LONG", "")
		tried := map[testrun.Pair[int, int]]int{}
		for turn := range 3 {
			seen := map[int]bool{}
			for _, pair := range testrun.Third(all, turn) {
				tried[pair]++
				seen[pair.B] = true
			}
			if len(seen) < len(bs) {
				t.Errorf("of %v turn %d leaves second members out: %v", sizes, turn, seen)
			}
		}
		for _, pair := range all {
			if tried[pair] != 1 {
				t.Errorf("of %v, three turns try %v %d times", sizes, pair, tried[pair])
			}
		}
	}
}

// A choice has each case at most once, and over many runs it leaves none out.
func TestSome_ChoosesOthersInEachRun(t *testing.T) { //nolint:paralleltest // sets a variable
	all := numbers(31)
	for name, test := range map[string]struct {
		choose func([]int) []int
		want   int
	}{"Some": {testrun.Some[int], 7}, "Few": {testrun.Few[int], 3}} {
		t.Setenv("STINT_TEST_LONG", "1")
		if got := test.choose(all); !slices.Equal(got, all) {
			t.Errorf("of every repetition %s takes %v", name, got)
		}
		t.Setenv("STINT_TEST_LONG", "")
		seen := map[int]bool{}
		for range 1000 {
			got := test.choose(all)
			if len(got) != test.want || len(slices.Compact(slices.Sorted(slices.Values(got)))) !=
				test.want {
				t.Fatalf("%s takes %v, want %d cases", name, got, test.want)
			}
			for _, c := range got {
				seen[c] = true
			}
		}
		if len(seen) < len(all) {
			t.Errorf("in 1000 runs, %s takes %d of %d cases", name, len(seen), len(all))
		}
		if got := test.choose(nil); len(got) != 0 {
			t.Errorf("of no cases %s takes %v", name, got)
		}
	}
}

// Of tests that take long, each has one of three turns, and about a third of them the same.
//
//nolint:paralleltest // sets a variable
func TestLong_RunsEachTestInOneOfThreeTurns(t *testing.T) {
	t.Setenv("STINT_TEST_LONG", "")
	const tests = 100
	run := [3]int{}
	for n := range tests {
		var ran int
		for turn := range run {
			t.Setenv("STINT_TEST_TURN", strconv.Itoa(turn))
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				named := named{t, fmt.Sprintf("TestStore_Claim%d/case", n)}
				testrun.Long(named)
				ran++
				run[turn]++
			})
		}
		if ran != 1 && !testing.Short() {
			t.Errorf("test %d runs in %d of three turns", n, ran)
		}
	}
	if !testing.Short() && slices.Min(run[:]) < tests/5 {
		t.Errorf("the turns have %v of %d tests", run, tests)
	}
	t.Setenv("STINT_TEST_LONG", "1")
	all := 0
	for n := range tests {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			testrun.Long(named{t, fmt.Sprintf("TestStore_Claim%d", n)})
			all++
		})
	}
	if all != tests && !testing.Short() {
		t.Errorf("a long run leaves out %d of %d tests", tests-all, tests)
	}
}

// named is a test of another name.
type named struct {
	testing.TB
	name string
}

func (n named) Name() string { return n.name }

func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
