package main

import "math"

// A result is a row of the table: one figure of one entry. It is also what the JSON has.
type result struct {
	Workload  string `json:"workload"` // its ID
	Title     string `json:"title"`    // of the workload
	Contender string `json:"contender"`
	Name      string `json:"name"` // of the contender, for people
	Variant   string `json:"variant,omitempty"`
	Figure    string `json:"figure,omitempty"` // empty if the workload has only one

	Unit   string    `json:"unit"`
	Tasks  int       `json:"tasks"` // of the last measurement
	Values []float64 `json:"values"`
	Median float64   `json:"median"`
	Spread float64   `json:"spread"` // of the values, as a share of their median

	// These are medians too; nil if not known. The ratio is greater if the contender is better, for
	// times and costs as well as for rates.
	OverRiver  *float64 `json:"over_river,omitempty"`
	WAL        *float64 `json:"wal_bytes_per_task,omitempty"`
	RoundTrips *float64 `json:"round_trips_per_task,omitempty"`
	PeakMiB    *float64 `json:"peak_client_mib,omitempty"`
	ServerCPU  *float64 `json:"server_cpu_us_per_task,omitempty"`
	ClientCPU  *float64 `json:"client_cpu_us_per_task,omitempty"`
}

// resultsOf are the rows of what was measured.
func resultsOf(all []*measured) results {
	var rows results
	for _, w := range workloads() {
		for _, f := range w.figuresOrRate() {
			for _, m := range all {
				if m.workload.id == w.id && len(m.reports) > 0 {
					rows = append(rows, m.result(f))
				}
			}
		}
	}
	for i := range rows {
		row := &rows[i]
		if peer, ok := rows.bestOf("river", row.Workload, row.Figure); ok {
			row.OverRiver = known(better(*row, peer))
		}
	}
	return rows
}

// result is the row of a figure.
func (m *measured) result(f figure) result {
	var values, wal, trips, peaks, server, client []float64
	for _, r := range m.reports {
		tasks := float64(r.Tasks)
		values = append(values, r.value(f))
		wal = append(wal, float64(r.WAL)/tasks)
		trips = append(trips, float64(r.Flights)/tasks)
		if r.ServerCPU > 0 {
			server = append(server, 1e6*r.ServerCPU/tasks)
		}
		if r.ClientCPU > 0 {
			client = append(client, 1e6*r.ClientCPU/tasks)
		}
		if r.PeakBytes > 0 {
			peaks = append(peaks, float64(r.PeakBytes)/(1<<20))
		}
	}
	return result{
		Workload: m.workload.id, Title: m.workload.title,
		Contender: m.contender.name, Name: m.contender.title, Variant: m.entry.variant,
		Figure: f.name, Unit: f.unit, Tasks: m.reports[len(m.reports)-1].Tasks,
		Values: values, Median: median(values), Spread: spread(values),
		WAL: known(median(wal)), RoundTrips: known(median(trips)), PeakMiB: known(median(peaks)),
		ServerCPU: known(median(server)), ClientCPU: known(median(client)),
	}
}

// known is nil for what is no number.
func known(value float64) *float64 {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return nil
	}
	return &value
}

// better is how many times as good the one is as the other: as fast, or as short or cheap.
func better(one, other result) float64 {
	if one.Unit == unitRate {
		return one.Median / other.Median
	}
	return other.Median / one.Median
}

// results are rows of the table.
type results []result

// of finds the row of an entry.
func (rows results) of(contender, workload, variant, figure string) (result, bool) {
	for _, row := range rows {
		if row.Contender == contender && row.Workload == workload &&
			row.Variant == variant && row.Figure == figure {
			return row, true
		}
	}
	return result{}, false
}

// bestOf finds the best of a contender's variants.
func (rows results) bestOf(contender, workload, figure string) (best result, ok bool) {
	for _, row := range rows {
		if row.Contender != contender || row.Workload != workload || row.Figure != figure {
			continue
		}
		if !ok || better(row, best) > 1 {
			best, ok = row, true
		}
	}
	return best, ok
}
