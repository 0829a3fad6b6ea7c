package interleave_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// Two verbs at once leave behind, and answer, what one after the other does.
func TestVerbs_AreAsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	if testrun.Rounds(10) < 10 {
		t.Skip("takes long: set STINT_TEST_LONG, as .ci/nightly does")
	}
	for _, of := range fixtures {
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, of, nil)
			var orders, between, strayed int
			begin, pairs := time.Now(), pairsOf(of)
			for _, p := range pairs {
				v, err := w.judge(p)
				if err != nil {
					t.Fatalf("%s: %v", p, err)
				}
				orders, between, strayed = orders+v.orders, between+v.between, strayed+v.strayed
				for _, finding := range v.findings {
					if why, ok := known[p.String()]; ok {
						t.Logf("%s: %s", p, why)
						break
					}
					t.Errorf("%s:\n%s", p, finding)
				}
			}
			t.Logf("%d pairs in %d orders, %d as one after the other of transactions only, "+
				"%d strayed, in %v", len(pairs), orders, between, strayed,
				time.Since(begin).Round(time.Millisecond))
		})
	}
}

// known are pairs that are not as one after the other, and why that may be.
var known = map[string]string{
	"delete t | delete t": "both delete a finished task, and neither is told that it was gone",
}

// mended are pairs that were not as one after the other once: they are tried in each run.
var mended = []struct{ a, b string }{
	{"insert n after t", "replace t"},
	{"ensure t and n after t", "replace t"},
	{"abort t", "replace t"},
	{"delay t", "replace t"},
	{"x after t", "replace t"},
	{"insert n, if t is aborted", "ensure t and n after t"},
}

func TestVerbs_StayMended(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	w := newWorld(t, fixtureNamed(t, "ready"), nil)
	for _, one := range mended {
		p := pair{verbNamed(t, one.a), verbNamed(t, one.b)}
		v, err := w.judge(p)
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		for _, finding := range v.findings {
			t.Errorf("%s:\n%s", p, finding)
		}
	}
}

// pairsOf are the pairs of verbs, each also with itself, for a fixture.
func pairsOf(of fixture) []pair {
	var all []verb
	for _, one := range verbs {
		if slices.Contains(one.in, of.name) {
			all = append(all, one)
		}
	}
	var pairs []pair
	for i := range all {
		for j := i; j < len(all); j++ {
			pairs = append(pairs, pair{all[i], all[j]})
		}
	}
	return pairs
}
