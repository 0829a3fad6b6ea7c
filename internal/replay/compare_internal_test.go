package replay

import "testing"

// What the log and the tables say differently is found, whichever of them says more.
func TestCompareRows_FindsEachDifference(t *testing.T) {
	t.Parallel()
	one := &row{table: ready, lo: 1, hi: 3, tries: 1}
	for name, c := range map[string]struct {
		replayed, stored []*row
		want             int64
	}{
		"the same":            {[]*row{one}, []*row{{table: ready, lo: 1, hi: 3, tries: 1}}, 0},
		"another end":         {[]*row{one}, []*row{{table: ready, lo: 1, hi: 2, tries: 1}}, 1},
		"another try":         {[]*row{one}, []*row{{table: ready, lo: 1, hi: 3, tries: 2}}, 1},
		"only in the log":     {[]*row{one}, nil, 2},
		"only in the tables":  {nil, []*row{one}, 1},
		"within another span": {[]*row{{table: ready, lo: 2, hi: 3, tries: 1}}, []*row{one}, 1},
	} {
		h := &History{state: newState()}
		h.compareRows(newTxn(1, "at the end"), filled(c.replayed), filled(c.stored))
		if h.counts.Violations != c.want {
			t.Errorf("%s: %d violations, want %d: %v", name, h.counts.Violations, c.want,
				h.Violations())
		}
	}
}

func filled(rows []*row) spans {
	all := spans{}
	for _, r := range rows {
		all.put(r)
	}
	return all
}
