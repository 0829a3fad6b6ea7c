package command

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/limit"
	"github.com/stint-tasks/stint/internal/wire"
)

const (
	// weightMax is the highest weight of a key.
	weightMax = 1000

	// limitTries is how often limits are changed anew since others have changed them meanwhile.
	limitTries = 10
)

// limitFlags are those of the limits of an action.
type limitFlags struct {
	concurrency, perKey, burst, keyBurst int
	rate, keyRate                        rateFlag
	fair, ordered, byCost, none          bool
	group                                string
}

func (p *program) limitCommand() *cobra.Command {
	var flags limitFlags
	cmd := &cobra.Command{
		Use:   "limit ACTION",
		Short: "Limit how tasks with an action are fetched",
		Long: `Set limits of an action, for all workers together, at once. Limits whose flags are
not given stay as they are, also if others set them at the same time. 0 removes a limit,
--none all of them. Pauses and weights stay. An action that nothing has the name of is
limited, too, with a warning on standard error.

With --ordered, the tasks of each key are performed one at a time, in the order in which
they became ready: a task holds its key until it has ended, through all of its tries. To
skip one that fails again and again: stint abort. Excludes --fair.

A limit of tasks in progress takes nothing away from owners: if more are in progress, none
is fetched until there is capacity. The command waits until the tasks that were fetched
before count, for as long as transactions that fetch, return or change tasks take.

A rate is TASKS/TIME, such as 1000/s, 5/m or 10/15m. If fewer tasks were fetched for a
while, as many as the burst may be at once; if only the rate is given, the burst is what
comes in a second, at least 1.

With --by-cost, rates are budgets: they and turns count what tasks cost (--cost of: stint
insert), and what was really spent, if owners say it. A task is fetched as long as there is
one token, and what is owed then is paid first.

With --json: action, and limits as in: stint limits.`,
		Example: `  stint limit mail --concurrency 40 --per-key 1 --rate 1000/s --fair
  stint limit mail --rate-per-key 5/m
  stint limit ask --rate 90000/m --burst 90000 --by-cost
  stint limit render --fair-group tenants
  stint limit mail --none`,
		GroupID: groupOperations,
		Args:    one("one action"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.limit(cmd, args[0], &flags)
		},
		ValidArgsFunction: onlyFirst(p.actions),
	}
	set := cmd.Flags()
	set.IntVar(&flags.concurrency, "concurrency", 0, "at most that many `tasks` in progress")
	set.IntVar(&flags.perKey, "per-key", 0, "at most that many `tasks` of each key in progress")
	set.Var(&flags.rate, "rate", "at most that many fetches in a time: a `rate` such as 1000/s")
	set.IntVar(&flags.burst, "burst", 0, "that many `tasks` at once, after a while without any")
	set.Var(&flags.keyRate, "rate-per-key", "a `rate` for each key, such as 5/m")
	set.IntVar(&flags.keyBurst, "burst-per-key", 0, "that many `tasks` of a key at once")
	set.BoolVar(&flags.fair, "fair", false, "keys take turns within a priority (see: stint weight)")
	set.StringVar(&flags.group, "fair-group", "", "share the turns of keys with the other fair "+
		"actions of that `group`: --fair, too; empty: with none")
	set.BoolVar(&flags.ordered, "ordered", false,
		"tasks of a key one at a time, in order, through all tries")
	set.BoolVar(&flags.byCost, "by-cost", false, "rates and turns count what tasks cost")
	set.BoolVar(&flags.none, "none", false, "remove all limits")
	return cmd
}

func (p *program) limit(cmd *cobra.Command, action string, flags *limitFlags) error {
	given := cmd.Flags().Changed
	some := false
	for _, flag := range []string{
		"concurrency", "per-key", "rate", "burst", "rate-per-key", "burst-per-key", "fair",
		"fair-group", "ordered", "by-cost",
	} {
		some = some || given(flag)
	}
	switch {
	case !some && !flags.none:
		return said(errInput, "expected a limit, such as --concurrency 40; "+
			"to see the limits: stint limits%s; to remove all of them: --none", p.flagsLine())
	case some && flags.none:
		return said(errInput, "--none excludes other limits")
	case some:
		err := cmp.Or(checkTyped("action", action), checkTyped("--fair-group", flags.group))
		if err != nil {
			return err
		}
	}
	return p.withStore(cmd.Context(), func(ctx context.Context, db *database) error {
		var limits stint.Limits
		err := limit.ErrChanged
		for left := limitTries; left > 0 && errors.Is(err, limit.ErrChanged); left-- {
			limits, err = p.setLimits(ctx, db, action, flags, given)
		}
		switch {
		case err != nil:
			return toldAll(flagsOf(err))
		case p.json:
			return p.printLimit(ctx, db, action)
		case limits == stint.Limits{}:
			return p.printf("%s has no limits\n", display.Text(action))
		default:
			return p.printf("set the limits of %s\n", display.Text(action))
		}
	})
}

// setLimits changes the limits of an action as they are now, and returns what it has set. If
// others have changed them in between, it fails with [limit.ErrChanged]: it would undo that.
func (p *program) setLimits(
	ctx context.Context, db *database, action string, flags *limitFlags, given func(string) bool,
) (limits stint.Limits, err error) {
	list, err := db.store.ListLimits(ctx, action)
	if err != nil && !flags.none {
		return limits, err
	}
	if len(list) == 0 {
		p.warnAction(ctx, db, action)
	} else if !flags.none {
		limits = list[0].Limits
	}
	if !flags.none {
		ctx = wire.WithSeenLimits(ctx, limits)
	}
	if err := flags.change(&limits, given); err != nil {
		return limits, err
	}
	return limits, db.store.SetLimits(ctx, action, limits)
}

// printLimit prints the limits of an action as the store has them, with the bursts that it filled
// in.
func (p *program) printLimit(ctx context.Context, db *database, action string) error {
	list, err := db.store.ListLimits(ctx, action)
	if err != nil {
		return err
	}
	document := map[string]any{"action": action}
	if len(list) > 0 && list[0].Limits != (stint.Limits{}) {
		document["limits"] = newLimitJSON(list[0].Limits)
	}
	return p.printJSON(document)
}

// toldAll is an error of a command that was interrupted, if it says more than that.
func toldAll(err error) error {
	if errors.Is(err, context.Canceled) {
		return said(errInterrupted, "%v", err)
	}
	return err
}

// change sets the limits whose flags are given.
func (f *limitFlags) change(limits *stint.Limits, given func(string) bool) error {
	if given("concurrency") {
		limits.Concurrency = f.concurrency
	}
	if given("fair") {
		limits.Fair = f.fair
		if !f.fair {
			limits.FairGroup = ""
		}
	}
	if given("fair-group") {
		limits.FairGroup = f.group
		limits.Fair = limits.Fair || f.group != "" && !given("fair")
	}
	if given("ordered") && f.ordered != limits.Ordered {
		limits.Ordered, limits.ConcurrencyPerKey = f.ordered, 0
	}
	if given("by-cost") {
		limits.ByCost = f.byCost
	}
	if given("per-key") {
		limits.ConcurrencyPerKey = f.perKey
	}
	for _, rate := range []struct {
		flag, burst string
		value       stint.Rate
		size        int
		into        *stint.Rate
	}{
		{"rate", "burst", f.rate.rate, f.burst, &limits.Rate},
		{"rate-per-key", "burst-per-key", f.keyRate.rate, f.keyBurst, &limits.RatePerKey},
	} {
		if given(rate.flag) {
			*rate.into = rate.value
		}
		if !given(rate.burst) {
			continue
		}
		if *rate.into == (stint.Rate{}) {
			return said(errInput, "--%s needs --%s", rate.burst, rate.flag)
		}
		rate.into.Burst = rate.size
	}
	return nil
}

func (p *program) weightCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "weight ACTION KEY=WEIGHT...",
		Short: "Set by which weights keys take turns",
		Long: `Set the weights of keys of an action, 1 to 1000 each. Where keys take turns (see:
stint limit --fair), a key with weight 3 gets three times as many tasks as one with weight
1, which is what keys have without a weight of their own. Keys that are not named keep
their weights. Keys that nothing has the name of get theirs, too, with a warning on standard
error.

With --json: action, and weights, an object with the keys.`,
		Example: "  stint weight mail customer-7=3 customer-9=1",
		GroupID: groupOperations,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 { //nolint:mnd // an action and a weight
				return errors.New("expected an action, and keys with weights such as customer-7=3")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			weights := map[string]int{}
			for _, arg := range args[1:] {
				at := strings.LastIndexByte(arg, '=') // keys may have some
				weight, err := strconv.Atoi(arg[at+1:])
				if at < 0 || err != nil {
					return said(errInput, "expected a key with a weight such as customer-7=3, "+
						"got %q", arg)
				}
				if _, twice := weights[arg[:at]]; twice {
					return said(errInput, "%q comes twice", arg[:at])
				}
				weights[arg[:at]] = weight
			}
			err := cmp.Or(checkTyped("action", args[0]),
				checkTyped("key", slices.Sorted(maps.Keys(weights))...))
			if err != nil {
				return err
			}
			return p.weight(cmd.Context(), args[0], weights)
		},
		ValidArgsFunction: onlyFirst(p.actions),
	}
}

func (p *program) weight(ctx context.Context, action string, weights map[string]int) error {
	return p.withStore(ctx, func(ctx context.Context, db *database) error {
		for key, weight := range weights { // the service takes 32 bits
			if weight < 1 || weight > weightMax {
				return said(errInput, "the weight of %q must be 1 to %d", key, weightMax)
			}
		}
		p.warnAction(ctx, db, action, slices.Sorted(maps.Keys(weights))...)
		if err := db.store.SetWeights(ctx, action, weights); err != nil {
			return err
		}
		if p.json {
			return p.printJSON(map[string]any{"action": action, "weights": weights})
		}
		return p.printf("set %s\n", display.Count(int64(len(weights)), "weight"))
	})
}
