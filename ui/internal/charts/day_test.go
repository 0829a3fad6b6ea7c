package charts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/charts"
)

// A day has a curve for each number, with a gap where nothing was noted or is known, a row for each
// hour, and the marks of the last day.
func TestDay_ShowsWhatWasNoted(t *testing.T) {
	t.Parallel()
	now := time.Unix(100*3600, 0)
	var minutes []stint.Minute
	for i := 120; i > 0; i-- {
		m := stint.Minute{
			Since: now.Add(-time.Duration(i) * time.Minute), Tries: 10, Retries: 1, Completed: 9,
			P95: time.Second, WaitP95: time.Second, RunP95: 2 * time.Second,
			Ready: int64(i), OldestReady: time.Duration(i) * time.Minute,
		}
		m.Until = m.Since.Add(time.Minute)
		switch {
		case i == 120:
			m.Tries, m.Retries = -1, -1
		case i > 50 && i <= 70:
			continue
		}
		minutes = append(minutes, m)
	}
	day := charts.NewDay(minutes, []charts.Mark{
		{At: now.Add(-48 * time.Hour), Text: "early"}, {At: now.Add(-12 * time.Hour), Text: "noon"},
	}, now)
	most := map[string]float64{}
	for _, curve := range day.Curves {
		most[curve.Name] = curve.Most
	}
	if len(most) != 9 || most["95 % waited"] != 1 || most["95 % ran"] != 2 ||
		most["Fetched"] != 10 || most["Fetched again"] != 1 ||
		most["Ready"] < 100 || most["Oldest ready"] < 100*60 {
		t.Fatalf("the curves are %+v", day.Curves)
	}
	if parts := strings.Count(day.Curves[0].Line, "M"); parts != 2 {
		t.Errorf("the curve has %d parts: %s", parts, day.Curves[0].Line)
	}
	if len(day.Marks) != 1 || day.Marks[0].Text != "noon" || day.Marks[0].X != 0 {
		t.Errorf("the marks are %+v", day.Marks)
	}
	var tries, completed int64
	for _, h := range day.Hours {
		tries, completed = tries+h.Tries, completed+h.Completed
	}
	if last := len(day.Hours) - 1; !day.Hours[last].AtLeast || day.Hours[0].AtLeast {
		t.Errorf("of the first minute alone the fetches are not known: %+v", day.Hours)
	}
	if first := charts.NewDay(minutes[:1], nil, now); first.Curves[0].Line != "" {
		t.Errorf("a curve of what is not known is %q", first.Curves[0].Line)
	}
	if len(day.Hours) < 2 || tries != 99*10 || completed != 100*9 {
		t.Errorf("the hours are %+v", day.Hours)
	}
	if none := charts.NewDay(nil, nil, now); none.Curves != nil {
		t.Errorf("of nothing: %+v", none)
	}
}

// What is said to be the most is that of one minute, not a mean, and each hour has a name of its
// own.
func TestDay_SaysTheMostOfAMinute(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.May, 4, 14, 30, 0, 0, time.UTC)
	minutes := make([]stint.Minute, 24*60)
	for i := range minutes {
		until := now.Add(time.Duration(i+1-len(minutes)) * time.Minute)
		minutes[i] = stint.Minute{Since: until.Add(-time.Minute), Until: until}
	}
	busy := &minutes[len(minutes)-100]
	busy.Tries, busy.OldestReady = 6000, 10*time.Minute
	day := charts.NewDay(minutes, nil, now)
	most := map[string]float64{}
	for _, curve := range day.Curves {
		most[curve.Name] = curve.Most
	}
	if most["Fetched"] != 6000 || most["Oldest ready"] != 600 {
		t.Errorf("the most are %v", most)
	}
	names := map[string]bool{}
	for i, hour := range day.Hours {
		names[hour.At.Format("15")] = true
		if hour.SoFar != (i == 0) {
			t.Errorf("hour %d is %+v", i, hour)
		}
	}
	if len(names) != 24 || len(day.Hours) != 24 {
		t.Errorf("%d hours have %d names", len(day.Hours), len(names))
	}
}
