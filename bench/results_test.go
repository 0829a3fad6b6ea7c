package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

func TestMedian_IsTheMiddle(t *testing.T) {
	t.Parallel()
	for want, values := range map[float64][]float64{
		2: {3, 1, 2}, 2.5: {4, 1, 2, 3}, 7: {7},
	} {
		if got := median(values); got != want {
			t.Errorf("median(%v) = %g, want %g", values, got, want)
		}
	}
	if got := spread([]float64{90, 100, 120}); got != 0.3 {
		t.Errorf("spread = %g, want 0.3", got)
	}
	if got := known(median(nil)); got != nil {
		t.Errorf("known(median(nil)) = %g, want nil", *got)
	}
}

func TestPercentile_IsOneOfTheValues(t *testing.T) {
	t.Parallel()
	values := make([]float64, 200)
	for i := range values {
		values[i] = float64(200 - i)
	}
	for share, want := range map[float64]float64{0.5: 100, 0.99: 198, 1: 200, 0: 1} {
		if got := percentile(values, share); got != want {
			t.Errorf("percentile(%g) = %g, want %g", share, got, want)
		}
	}
}

func TestQuantity_HasFewDigits(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]float64{
		"0.0057": 0.00571, "0.57": 0.571, "99.94": 99.94,
		"123": 123.4, "1,230": 1234, "99,100": 99_120,
		"1,230,000": 1_234_567,
	} {
		if got := quantity(value, ""); got != want {
			t.Errorf("quantity(%g) = %q, want %q", value, got, want)
		}
	}
}

// measuredRates is an entry that gave these rates.
func measuredRates(workloadID, contenderName, variant string, rates ...float64) *measured {
	m := &measured{
		contender: contender{name: contenderName, title: contenderName},
		entry:     entry{workload: workloadID, variant: variant},
	}
	for _, w := range workloads() {
		if w.id == workloadID {
			m.workload = w
		}
	}
	for _, rate := range rates {
		m.reports = append(m.reports, report{
			Tasks: int(rate), Seconds: 1, WAL: int64(100 * rate),
			Flights: int64(rate / 10), PeakBytes: 64 << 20,
		})
	}
	return m
}

// sample are results of a few entries.
func sample() results {
	latency := measuredRates("W4", "stint", "worker", 100)
	latency.reports[0].Figures = map[string]float64{figureP50: 0.5, figureP99: 3}
	peer := measuredRates("W4", "river", "", 100)
	peer.reports[0].Figures = map[string]float64{figureP50: 5, figureP99: 9}
	return resultsOf([]*measured{
		measuredRates("W1", "stint", "", 200_000, 300_000, 250_000),
		measuredRates("W1", "river", "", 110_000, 100_000, 90_000),
		measuredRates("W2", "stint", verbsKept, 90_000),
		measuredRates("W2", "river", "slow", 20_000),
		measuredRates("W2", "river", "fast", 30_000),
		latency, peer,
	})
}

func TestResults_CompareWithTheBestOfRiver(t *testing.T) {
	t.Parallel()
	rows := sample()
	for _, test := range []struct {
		workload, variant, figure string
		want                      float64
	}{
		{"W1", "", "", 2.5}, {"W2", verbsKept, "", 3}, {"W4", "worker", figureP50, 10},
	} {
		row, ok := rows.of("stint", test.workload, test.variant, test.figure)
		if !ok || row.OverRiver == nil || *row.OverRiver != test.want {
			t.Errorf("%s = %+v, want %g times River", test.workload, row, test.want)
		}
		if row.RoundTrips == nil || *row.RoundTrips != 0.1 {
			t.Errorf("%s = %+v, want 0.1 round trips a task", test.workload, row)
		}
	}
}

func TestWriteTable_AlignsItsColumns(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	if err := writeTable(&text, sample()[:3]); err != nil {
		t.Fatal(err)
	}
	const want = "" +
		"workload        contender            median           x River  WAL B/task" +
		"  trips/task  server µs  client µs  peak MiB  spread\n" +
		"W1 insert many  stint               250,000  tasks/s     2.50         100" +
		"      0.1000                              64    40 %\n" +
		"                river               100,000  tasks/s     1.00         100" +
		"      0.1000                              64    20 %\n" +
		"W2 drain        stint, verbs, kept   90,000  tasks/s     3.00         100" +
		"      0.1000                              64\n"
	if got := text.String(); got != want {
		t.Errorf("table =\n%s\nwant\n%s", got, want)
	}
}

func TestVerdicts_HoldOrDoNot(t *testing.T) {
	t.Parallel()
	holds, measured := map[string]bool{}, map[string]bool{}
	for _, v := range verdicts(sample()) {
		holds[v.Bar], measured[v.Bar] = v.Holds, v.Value != nil
	}
	for bar, want := range map[string][2]bool{
		"W1 insert many over river":  {true, true},
		"W2 verbs, kept over river":  {false, true},
		"W4 worker p50":              {true, true},
		"W4 worker p99":              {false, true},
		"WAL of a life, kept":        {true, true},
		"client memory in W2 and W5": {true, true},
		"W1 insert many over raw":    {false, false},
		"W6 last tenth over first":   {false, false},
	} {
		if got := [2]bool{holds[bar], measured[bar]}; got != want {
			t.Errorf("%s holds, is measured: %v, want %v", bar, got, want)
		}
	}
}

func TestVerdicts_CompareLimitsWithTheSameTasksWithoutThem(t *testing.T) {
	t.Parallel()
	paced := measuredRates(paceWorkload, "stint", "", 1000)
	paced.reports[0].Figures = map[string]float64{figurePace: 988, figureOff: 1.2}
	rows := resultsOf([]*measured{
		measuredRates(actionLimitWorkload, "stint", verbsUnlimited, 100),
		measuredRates(actionLimitWorkload, "stint", verbsLimited, 80),
		measuredRates(actionLimitWorkload, "stint", loopUnlimited, 200),
		measuredRates(actionLimitWorkload, "stint", loopLimited, 100),
		measuredRates(keyLimitWorkload, "stint", noKeys, 1000),
		measuredRates(keyLimitWorkload, "stint", keysUnlimited, 1200),
		measuredRates(keyLimitWorkload, "stint", onePerKey, 300),
		measuredRates(keyLimitWorkload, "stint", onePerKeyMany, 270),
		measuredRates(fairWorkload, "stint", mixedUnlimited, 100),
		measuredRates(fairWorkload, "stint", mixedFair, 50),
		measuredRates(fairWorkload, "stint", inRowsUnlimited, 400),
		measuredRates(fairWorkload, "stint", inRowsFair, 100),
		paced,
	})
	got := map[string]verdict{}
	for _, v := range verdicts(rows) {
		if strings.HasPrefix(v.Bar, "W15 ") && v.Value != nil {
			got[v.Bar] = v
		}
	}
	want := map[string]struct {
		value float64
		holds bool
	}{
		"W15 verbs, 1,000 at once over no limits":  {0.8, true},
		"W15 worker, 1,000 at once over no limits": {0.5, false},
		"W15 keys over no keys":                    {1.2, true},
		"W15 1 per key over no limits":             {0.25, false},
		"W15 1 per key, 100,000 wait over none":    {0.9, true},
		"W15 keys one by one, fair over no limits": {0.5, true},
		"W15 keys in rows, fair over no limits":    {0.25, false},
		"W15 rate, off by":                         {1.2, false},
	}
	for bar, w := range want {
		if v, ok := got[bar]; !ok || *v.Value != w.value || v.Holds != w.holds {
			t.Errorf("%s = %+v, want %g, which holds: %v", bar, v, w.value, w.holds)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d bars of W15 were measured, want %d", len(got), len(want))
	}
}

func TestWriteBars_SaysWhatWasNotMeasured(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	if err := writeBars(&text, verdicts(sample())); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2.50 x  yes\n", "3.00 x  no\n", "more were not measured)\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("bars =\n%s\nwant %q in them", text.String(), want)
		}
	}
}

func TestWriteChart_IsWellFormed(t *testing.T) {
	t.Parallel()
	rows := sample()
	rows[0].Name = `<Stint & "more">`
	var drawing bytes.Buffer
	err := writeChart(&drawing, findings{Results: rows, Machine: machine{CPU: "A & B <C>"}})
	if err != nil {
		t.Fatal(err)
	}
	var bars int
	decoder := xml.NewDecoder(&drawing)
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "rect" {
			bars++
		}
	}
	if bars != 7 {
		t.Errorf("%d bars, want 7", bars)
	}
}

func TestCountingConn_CountsWritesAfterReads(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	go func() {
		_, _ = io.Copy(far, far) // an echo
	}()
	var flights atomic.Int64
	conn := &countingConn{Conn: near, flights: &flights}
	for range 3 {
		for range 2 {
			if _, err := conn.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(near, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		conn.read.Store(true) // as a read through conn does
	}
	if got := flights.Load(); got != 2 {
		t.Errorf("%d round trips after the first, want 2", got)
	}
	_ = errors.Join(near.Close(), far.Close())
}
