package command

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

func (p *program) limitsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "limits [ACTION...]",
		Short: "List limits and pauses",
		Long: `List the limits, pauses and weights of these actions, or of all that have some.
IN PROGRESS is how many tasks are, and how many may be; TOKENS is what there is of the rate,
or when the next one comes. FAIR is the group of a fair action, if it is in one. PARKED is
how many ready tasks wait for capacity below a limit of their key, for the end of its pause,
or for its turn. With actions named, paused keys and weights follow, 100 of each at most.

With --json, an action to a line: action, limits (concurrency, per_key, rate, rate_per_key,
fair, fair_group, ordered, by_cost; of a rate, tasks, per_seconds and burst), set_at, paused_since,
in_progress, parked, parked_or_more, tokens (of the rate, at this moment), next_at (when the
next token comes, if there is none), paused_keys (each with a time), weights, keys_or_more
(there are more than 10,000 keys with a pause or a weight). What does not apply is missing.`,
		Example: `  stint limits
  stint limits mail --json | jq .limits`,
		GroupID: groupOperations,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withStore(cmd.Context(), func(ctx context.Context, db *database) error {
				return p.limits(ctx, db, args)
			})
		},
		ValidArgsFunction: p.actions,
	}
}

func (p *program) limits(ctx context.Context, db *database, actions []string) error {
	list, err := db.store.ListLimits(ctx, actions...)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		p.warn(unknownActions(ctx, db, false, actions...))
	}
	if p.json {
		return printLines(p, list, newLimitsJSON)
	}
	if len(list) == 0 {
		p.printNone(ctx, db, "no limits")
		return nil
	}
	now, err := db.now(ctx)
	if err != nil {
		return err
	}
	rows := [][]string{{
		"ACTION", "IN PROGRESS", "PER KEY", "RATE", "TOKENS", "RATE PER KEY", "FAIR", "PARKED",
		"PAUSED", "KEYS",
	}}
	for i := range list {
		rows = append(rows, limitsRow(&list[i], now))
	}
	if err := p.printTable(rows); err != nil || len(actions) == 0 {
		return err
	}
	for i := range list {
		if err := p.printKeys(&list[i], now); err != nil {
			return err
		}
	}
	return nil
}

// printKeys lists the paused keys and the weights of an action.
func (p *program) printKeys(l *stint.ActionLimits, now time.Time) error {
	const most = 100
	paused := firstOf(slices.Sorted(maps.Keys(l.PausedKeys)), most, "and %s more paused: --json",
		func(key string) string {
			return fmt.Sprintf("key %s: paused %s", display.Text(key),
				display.Relative(l.PausedKeys[key], now))
		})
	weights := firstOf(slices.Sorted(maps.Keys(l.Weights)), most,
		"and %s more with a weight: --json", func(key string) string {
			return fmt.Sprintf("key %s: weight %d", display.Text(key), l.Weights[key])
		})
	for _, line := range append(paused, weights...) {
		if err := p.printf("%s: %s\n", display.Text(l.Action), line); err != nil {
			return err
		}
	}
	return nil
}

func limitsRow(l *stint.ActionLimits, now time.Time) []string {
	row := []string{
		display.Text(l.Action), "", "", rateText(l.Limits.Rate), "",
		rateText(l.Limits.RatePerKey), "", display.Number(int64(l.Parked)), "", keysText(l),
	}
	switch {
	case l.Limits.Rate == stint.Rate{}:
	case !l.NextAt.IsZero():
		row[4] = "next " + display.Relative(l.NextAt, now)
	default:
		row[4] = display.Number(int64(l.Tokens))
	}
	if l.Limits.Concurrency > 0 {
		row[1] = fmt.Sprintf("%s of %s", display.Number(int64(l.InProgress)),
			display.Number(int64(l.Limits.Concurrency)))
	}
	if l.Limits.ConcurrencyPerKey > 0 {
		row[2] = display.Number(int64(l.Limits.ConcurrencyPerKey))
	}
	if l.Limits.Ordered {
		row[2] += ", ordered"
	}
	if l.Limits.Fair {
		row[6] = cmp.Or(display.Text(l.Limits.FairGroup), "yes")
	}
	if l.ParkedOrMore {
		row[7] += " or more"
	}
	if !l.PausedSince.IsZero() {
		row[8] = display.Relative(l.PausedSince, now)
	}
	if l.Limits.ByCost {
		for _, rate := range []*string{&row[3], &row[5], &row[6]} {
			if *rate != "" {
				*rate += ", by cost"
			}
		}
	}
	return row
}

// rateText writes a rate as the flags read it, and its burst.
func rateText(r stint.Rate) string {
	if r == (stint.Rate{}) {
		return ""
	}
	return fmt.Sprintf("%s, burst %s", rateFlag{rate: r}.text(), display.Number(int64(r.Burst)))
}

func keysText(l *stint.ActionLimits) string {
	var parts []string
	if n := len(l.PausedKeys); n > 0 {
		parts = append(parts, display.Number(int64(n))+" paused")
	}
	if n := len(l.Weights); n > 0 {
		parts = append(parts, display.Number(int64(n))+" with a weight")
	}
	if l.KeysOrMore {
		parts = append(parts, "or more")
	}
	return strings.Join(parts, ", ")
}
