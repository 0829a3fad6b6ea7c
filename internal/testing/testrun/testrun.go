// Package testrun says how a run of the tests goes: how often a test repeats itself, how many tests
// run at once, and where they keep their temporary files.
package testrun

import (
	"flag"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Environment variables that ask for every repetition, for every program that a test starts, and
// for a third of the tests that take long: those of turn 0, 1 or 2.
const (
	long     = "STINT_TEST_LONG"
	programs = "STINT_TEST_PROGRAMS"
	turn     = "STINT_TEST_TURN"
)

// atOnce is how many tests of a package run at once, on machines small and large: most tests wait
// for the server most of the time, and its connections are enough for these.
const atOnce = "4"

// Prepare sets up the tests of a package. Their TestMain has to call it first.
func Prepare() error {
	inMemory()
	keepMemory()
	return flag.Set("test.parallel", atOnce) // -parallel is read later and still counts
}

// Rounds returns how often a test repeats itself, or how much of something it takes. It is for
// tests that find more the longer they run. It returns most if STINT_TEST_LONG is set, as in
// .ci/nightly, otherwise a tenth of that, with -short a twentieth; at least 1.
func Rounds(most int) int {
	switch {
	case testing.Short():
		return max(most/20, 1)
	case os.Getenv(long) == "":
		return max(most/10, 1)
	}
	return most
}

// Some returns cases of a test that has many: all if STINT_TEST_LONG is set, otherwise a fifth,
// other ones in each run. Their names are those of sub-tests, with which -run repeats them.
func Some[C any](cases []C) []C { return chosen(cases, 5) }

// Few is [Some] for tests with a hundred cases and more, which differ little: it takes a fifteenth.
func Few[C any](cases []C) []C { return chosen(cases, 15) }

// chosen returns one case of every few, in their order.
func chosen[C any](cases []C, few int) []C {
	if os.Getenv(long) != "" || len(cases) == 0 {
		return cases
	}
	indices := rand.Perm(len(cases))[:len(cases)/few+1] //nolint:gosec // no secret
	slices.Sort(indices)
	some := make([]C, 0, len(indices))
	for _, i := range indices {
		some = append(some, cases[i])
	}
	return some
}

// Third returns cases of a test that has many: all if STINT_TEST_LONG is set, otherwise the third
// whose turn it is, 0 to 2. Tests that share cases take different turns, so that together they
// try each. The thirds run across the rows of [Pairs].
func Third[C any](cases []C, turn int) []C {
	if os.Getenv(long) != "" {
		return cases
	}
	third := make([]C, 0, len(cases)/turns+1)
	for i := range cases {
		if (i+i/turns)%turns == turn {
			third = append(third, cases[i])
		}
	}
	return third
}

// A Pair is a case of a test that tries each of some things with each of others.
type Pair[A, B any] struct {
	A A
	B B
}

// Pairs returns each of as with each of bs.
func Pairs[A, B any](as []A, bs []B) []Pair[A, B] {
	pairs := make([]Pair[A, B], 0, len(as)*len(bs))
	for _, a := range as {
		for _, b := range bs {
			pairs = append(pairs, Pair[A, B]{a, b})
		}
	}
	return pairs
}

// Long is for a test that takes more than about a second. A run with -short leaves it out, and so
// do two of three .ci/run: the commit says whose turn it is. STINT_TEST_LONG leaves none out.
func Long(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("takes long; run without -short")
	}
	if now := os.Getenv(turn); now != "" && os.Getenv(long) == "" && now != turnOf(tb.Name()) {
		tb.Skip("takes long; the turn of a commit soon after this; run without " + turn)
	}
}

// turns are how many commits it takes until every test has had its turn.
const turns = 3

// turnOf returns the turn of a test, which its sub-tests share.
func turnOf(test string) string {
	test, _, _ = strings.Cut(test, "/")
	return strconv.Itoa(int(crc32.ChecksumIEEE([]byte(test)) % turns))
}

// Browser returns the path of the browser that pages are tested with. That without windows does the
// same in half the processor time.
func Browser() (path string, err error) {
	if path, err = exec.LookPath("chromium-headless-shell"); err != nil {
		path, err = exec.LookPath("chromium")
	}
	return path, err
}

// Missing ends a test whose program is not here. It fails where all programs have to be: if
// STINT_TEST_PROGRAMS is set, as in .ci/run, or STINT_TEST_LONG. text says how to install it.
func Missing(tb testing.TB, text string) {
	tb.Helper()
	if os.Getenv(programs) != "" || os.Getenv(long) != "" {
		tb.Fatal(text)
	}
	tb.Skip(text)
}
