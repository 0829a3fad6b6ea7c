package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/shards"
)

func (p *program) statsCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "stats",
		SuggestFor: []string{"count"},
		Short:      "Count tasks by action and state",
		Long: `Count tasks by action and state, in the same time however many there are: for states
with very many tasks the numbers are estimates, marked by a tilde. OLDEST READY is for how
long the ready task that has waited longest has been ready. TRIES is how many tasks were fetched so
far, and RETRIES how many of these were not for the first try: two calls give the rate. If
there are limits, LIMITS says whether the action is limited or paused, and PARKED how many
of the ready tasks wait for their key: for capacity below a limit, for the end of its pause, or
for its turn (see: stint limits).

With --json: actions, a list of objects with action, tries, retries, oldest_ready_seconds,
lost (of the aborted tasks, those with the cause "lost"), parked (the ready tasks that wait
for their key), limited, paused, concurrency and a number for each state; estimated, the
states whose numbers are estimates, and estimated_at, when these were made (left out if
there are none); copy, why the database is a copy, in which nothing is handed out, if it is
one (see: stint adopt). Without ready tasks there is no oldest_ready_seconds, without such a
limit no concurrency. With --topology
there is instead shards, a list of objects with shard, actions, estimated and estimated_at.`,
		Example: "  stint stats\n" +
			`  stint stats --json | jq '.actions[] | select(.oldest_ready_seconds > 600)'`,
		GroupID: groupTasks,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withTasks(cmd.Context(), p.stats)
		},
	}
}

func (p *program) stats(ctx context.Context, db *database) error {
	if db.shards != nil {
		return p.statsOfShards(ctx, db.shards)
	}
	stats, err := db.store.Stats(ctx)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(statsJSON(stats))
	}
	p.tellCopy("", stats)
	if len(stats.Actions) == 0 {
		p.printNone(ctx, db, "no tasks")
		return nil
	}
	limited := hasLimits(stats)
	rows := append([][]string{statsHeader(limited)}, statsRows(stats, limited)...)
	alignRight(rows, 1)
	if err := p.printTable(rows); err != nil {
		return err
	}
	p.tellEstimated("", stats)
	return nil
}

// tellCopy says of a database, if it is a copy, that nothing is handed out.
func (p *program) tellCopy(of string, stats stint.Stats) {
	if stats.Copy != "" {
		fmt.Fprintf(p.stderr, "%snothing is handed out (see: stint adopt): %s\n", of,
			display.Text("the database is a copy: "+stats.Copy))
	}
}

// tellEstimated says what a tilde is, if there is one.
func (p *program) tellEstimated(of string, stats stint.Stats) {
	if !stats.EstimatedAt.IsZero() {
		fmt.Fprintf(p.stderr, "%s~ is an estimate of %s\n", of,
			stats.EstimatedAt.UTC().Format("2006-01-02 15:04:05Z"))
	}
}

// statsOfShards prints the stats of the shards that are not away.
func (p *program) statsOfShards(ctx context.Context, s *sharded) error {
	found, err := s.statsOfAll(ctx)
	if err != nil {
		return err
	}
	return p.printShardStats(found, s.lacks())
}

// printShardStats prints the stats of shards. Others may be away, of which the caller tells.
func (p *program) printShardStats(found []shards.ShardStats, away bool) error {
	documents := []any{}
	limited := slices.ContainsFunc(found, func(one shards.ShardStats) bool {
		return hasLimits(one.Stats)
	})
	rows := [][]string{append([]string{"SHARD"}, statsHeader(limited)...)}
	for _, one := range found {
		document := statsJSON(one.Stats)
		document["shard"] = one.Shard
		documents = append(documents, document)
		for _, row := range statsRows(one.Stats, limited) {
			rows = append(rows, append([]string{one.Shard}, row...))
		}
	}
	switch {
	case p.json:
		return p.printJSON(map[string]any{"shards": documents})
	case len(rows) > 1:
		alignRight(rows, 2) //nolint:mnd // shard and action
		if err := p.printTable(rows); err != nil {
			return err
		}
	case !away:
		fmt.Fprintln(p.stderr, "no tasks")
	}
	for _, one := range found {
		p.tellCopy(one.Shard+": ", one.Stats)
		p.tellEstimated(one.Shard+": ", one.Stats)
	}
	return nil
}

// hasLimits reports whether an action has limits, or is paused, or ready tasks wait for their keys.
func hasLimits(stats stint.Stats) bool {
	return slices.ContainsFunc(stats.Actions, func(a stint.ActionStats) bool {
		return a.Limited || a.Paused || a.Parked > 0
	})
}

func statsHeader(limited bool) []string {
	header := []string{"ACTION"}
	for _, state := range stateNames() {
		header = append(header, strings.ToUpper(state))
	}
	header = append(header, "OLDEST READY", "TRIES", "RETRIES")
	if limited {
		header = append(header, "PARKED", "LIMITS")
	}
	return header
}

// statsRows are a row for each action, with two more columns if anything is limited.
func statsRows(stats stint.Stats, limited bool) [][]string {
	var rows [][]string
	for _, a := range stats.Actions {
		row := []string{display.Text(a.Action)}
		for state, tasks := range a.ByState() {
			row = append(row, about(stats, state, tasks))
		}
		age := ""
		if a.Ready > 0 {
			age = display.Span(a.OldestReady)
		}
		row = append(row, age, display.Number(a.Tries), display.Number(a.Retries))
		if limited {
			row = append(row, about(stats, stint.StateReady, a.Parked), limitsCell(a))
		}
		rows = append(rows, row)
	}
	return rows
}

// about is how many tasks are in a state, with a tilde if that is an estimate.
func about(stats stint.Stats, state stint.State, tasks int64) string {
	number := display.Number(tasks)
	if slices.Contains(stats.Estimated, state) {
		return "~" + number
	}
	return number
}

func limitsCell(a stint.ActionStats) string {
	switch {
	case a.Paused:
		return "paused"
	case a.Limited:
		return "limited"
	}
	return ""
}

// alignRight aligns the numbers on the right, in the columns from one on.
func alignRight(rows [][]string, from int) {
	for column := from; column < len(rows[0]); column++ {
		width := 0
		for _, row := range rows {
			width = max(width, len(row[column]))
		}
		for _, row := range rows {
			row[column] = fmt.Sprintf("%*s", width, row[column])
		}
	}
}

func statsJSON(stats stint.Stats) map[string]any {
	actions := make([]map[string]any, len(stats.Actions))
	for i, a := range stats.Actions {
		actions[i] = map[string]any{
			"action": a.Action, "tries": a.Tries, "retries": a.Retries, "lost": a.Lost,
			"parked":  a.Parked,
			"limited": a.Limited, "paused": a.Paused,
		}
		if a.Concurrency > 0 {
			actions[i]["concurrency"] = a.Concurrency
		}
		for state, tasks := range a.ByState() {
			actions[i][string(state)] = tasks
		}
		if a.Ready > 0 {
			actions[i]["oldest_ready_seconds"] = a.OldestReady.Seconds()
		}
	}
	document := map[string]any{"actions": actions, "estimated": orEmpty(stats.Estimated)}
	if stats.Copy != "" {
		document["copy"] = stats.Copy
	}
	if !stats.EstimatedAt.IsZero() {
		document["estimated_at"] = utc(stats.EstimatedAt)
	}
	return document
}
