package counts_test

import (
	"math"
	"testing"
	"time"

	"github.com/stint-tasks/stint/internal/counts"
)

// What counts is how many were fetched while some waited.
func TestPace_IsOfTheTimeInWhichTasksWaited(t *testing.T) {
	t.Parallel()
	note := func(seconds int, ready, tries int64) counts.Note {
		return counts.Note{
			At: time.Time{}.Add(time.Duration(seconds) * time.Second), Ready: ready, Tries: tries,
		}
	}
	for name, test := range map[string]struct {
		notes []counts.Note
		want  float64
	}{
		"nothing noted":     {},
		"a single note":     {notes: []counts.Note{note(0, 5, 0)}},
		"too short":         {notes: []counts.Note{note(0, 5, 0), note(29, 5, 29)}},
		"half a minute":     {[]counts.Note{note(0, 5, 0), note(30, 5, 60)}, 2},
		"idle at the end":   {notes: []counts.Note{note(0, 5, 0), note(60, 0, 60)}},
		"idle at the start": {notes: []counts.Note{note(0, 0, 0), note(60, 5, 60)}},
		"idle in between": {
			[]counts.Note{note(0, 5, 0), note(60, 5, 120), note(120, 0, 130), note(180, 5, 140)},
			2,
		},
		"begun anew":        {notes: []counts.Note{note(0, 5, 100), note(60, 5, 7)}},
		"a clock went back": {notes: []counts.Note{note(60, 5, 0), note(0, 5, 7)}},
		"the last minutes": {
			[]counts.Note{
				note(0, 5, 0), note(60, 5, 6000), note(120, 5, 6060), note(180, 5, 6120),
				note(240, 5, 6180),
			},
			1,
		},
		"longer if few were fetched": {
			[]counts.Note{
				note(0, 5, 0), note(60, 5, 9), note(120, 5, 10), note(180, 5, 11), note(240, 5, 12),
			},
			12.0 / 240,
		},
		"a pause before": {
			[]counts.Note{
				note(0, 5, 0), note(60, 5, 1), note(1560, 5, 1), note(1620, 5, 41),
				note(1680, 5, 81),
			},
			80.0 / 120,
		},
		"seldom": {
			[]counts.Note{
				note(0, 5, 0), note(60, 5, 1), note(120, 5, 1), note(180, 5, 1), note(240, 5, 2),
			},
			2.0 / 240,
		},
		"none was fetched": {notes: []counts.Note{note(0, 5, 9), note(60, 5, 9)}},
	} {
		if got := counts.Pace(test.notes); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%s: the pace is %v, want %v", name, got, test.want)
		}
	}
}
