package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/readable"
)

func (p *program) statsCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "stats",
		SuggestFor: []string{"count"},
		Short:      "Count tasks by action and state",
		Long: `Count tasks by action and state, in the same time however many there are: for states
with very many tasks the numbers are estimates, marked by a tilde. OLDEST READY is how
long ago the oldest ready task was inserted. TRIES is how many tasks were handed out so
far, and RETRIES how many of these were not for the first try: two calls give the rate.

With --json: actions, a list of objects with action, tries, retries, oldest_ready_seconds
and a number for each state; and estimated, the states whose numbers are estimates. Without
ready tasks there is no oldest_ready_seconds. With --topology there is instead shards, a
list of objects with shard, actions and estimated.`,
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
	if len(stats.Actions) == 0 {
		fmt.Fprintln(p.stderr, "no tasks")
		return nil
	}
	rows := append([][]string{statsHeader()}, statsRows(stats)...)
	alignRight(rows, 1)
	return p.printTable(rows)
}

// statsOfShards prints the stats of the shards that are not away.
func (p *program) statsOfShards(ctx context.Context, s *sharded) error {
	found, err := s.statsOfAll(ctx)
	if err != nil {
		return err
	}
	documents := []any{}
	rows := [][]string{append([]string{"SHARD"}, statsHeader()...)}
	for _, one := range found {
		document := statsJSON(one.Stats)
		document["shard"] = one.Shard
		documents = append(documents, document)
		for _, row := range statsRows(one.Stats) {
			rows = append(rows, append([]string{one.Shard}, row...))
		}
	}
	switch {
	case p.json:
		return p.printJSON(map[string]any{"shards": documents})
	case len(rows) == 1 && s.lacks():
		return nil
	case len(rows) == 1:
		fmt.Fprintln(p.stderr, "no tasks")
		return nil
	}
	alignRight(rows, 2) //nolint:mnd // shard and action
	return p.printTable(rows)
}

func statsHeader() []string {
	header := []string{"ACTION"}
	for _, state := range stateNames() {
		header = append(header, strings.ToUpper(state))
	}
	return append(header, "OLDEST READY", "TRIES", "RETRIES")
}

// statsRows are a row for each action.
func statsRows(stats stint.Stats) [][]string {
	var rows [][]string
	for _, a := range stats.Actions {
		row := []string{readable.Text(a.Action)}
		for state, tasks := range a.ByState() {
			number := readable.Number(tasks)
			if slices.Contains(stats.Estimated, state) {
				number = "~" + number
			}
			row = append(row, number)
		}
		age := ""
		if a.Ready > 0 {
			age = readable.Span(a.OldestReady)
		}
		rows = append(rows, append(row, age,
			readable.Number(a.Tries), readable.Number(a.Retries)))
	}
	return rows
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
			"action": a.Action, "tries": a.Tries, "retries": a.Retries,
		}
		for state, tasks := range a.ByState() {
			actions[i][string(state)] = tasks
		}
		if a.Ready > 0 {
			actions[i]["oldest_ready_seconds"] = a.OldestReady.Seconds()
		}
	}
	estimated := stats.Estimated
	if estimated == nil {
		estimated = []stint.State{}
	}
	return map[string]any{"actions": actions, "estimated": estimated}
}
