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
	"insert n after t | prune":       prunedMeanwhile,
	"insert n after t and d | prune": prunedMeanwhile,
	"ensure t and n after t | prune": prunedMeanwhile,
	"replace d after t | prune":      prunedMeanwhile,
}

const prunedMeanwhile = "what a new task waits for may be pruned meanwhile: see retention.md"

// mended are pairs that were not as one after the other once, and a few of budgets and of
// finish_task: they are tried in each run.
var mended = []struct{ in, a, b string }{
	{"ready", "insert n after t", "replace t"},
	{"ready", "ensure t and n after t", "replace t"},
	{"ready", "abort t", "replace t"},
	{"ready", "delay t", "replace t"},
	{"ready", "x after t", "replace t"},
	{"ready", "insert n, if t is aborted", "ensure t and n after t"},
	{"aborted", "insert n, if t is aborted", "delete t"},
	{"aborted", "insert n, if t is aborted", "replace t"},
	{"completed", "delete t", "delete t"},
	{"budget", "complete t, spent less", "return t, spent more"},
	{"budget", "own, knowing limits", "return t, spent more"},
	{"budget of a key", "finish t in SQL, spent less", "complete t, spent less"},
	{"owned", "finish t in SQL", "insert n after t"},
	{"late", "finish t in SQL", "complete t"},
	{"blocked", "finish p in SQL", "complete q"},
}

func TestVerbs_StayMended(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	worlds := map[string]*world{}
	for _, one := range mended {
		if worlds[one.in] == nil {
			worlds[one.in] = newWorld(t, fixtureNamed(t, one.in), nil)
		}
		p := pair{verbNamed(t, one.a), verbNamed(t, one.b)}
		v, err := worlds[one.in].judge(p)
		if err != nil {
			t.Fatalf("%s, %s: %v", one.in, p, err)
		}
		for _, finding := range v.findings {
			t.Errorf("%s, %s:\n%s", one.in, p, finding)
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
