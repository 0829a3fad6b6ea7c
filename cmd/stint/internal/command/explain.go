package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
)

func (p *program) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "explain ID",
		SuggestFor: []string{"why"},
		Short:      "Say why a task does not run",
		Long: `Say what a task waits for, until when it is scheduled, who owns it until when, which
limits and pauses hold it up, how many tries are left, whether anybody asks for its action,
when it will start, and because of which tasks it was aborted or skipped. With --topology it
also asks the shards of the tasks that it waits for.

With --json: task (see: stint help json), missing (how many tasks it waits for),
waits_for (these, 100 at most), any_of (true if the first of them to meet its condition
starts it), because_of (the tasks because of which it was aborted or skipped, 100 at most;
left out if there are none), tries_left (left out if there is no
limit), limits (what holds up a ready task; left out where there are neither limits nor
pauses), asked_at (when somebody last asked for the action: now, as long as somebody waits
for its tasks; left out if nobody has for a week), actors (how many are registered for it),
presence (of a task in progress "lives" or "gone", if that is known of the process of its
owner), copy (why the database is a copy, in which nothing is handed out, if it is one: see
stint adopt), now. limits has limits and paused_since of the action, as stint
limits, and key_paused_since; in_progress and key_in_progress, where those are limited, owned
and key_owned (up to 100 of each; of an ordered action, key_owned is the task that holds
the key, in progress or not); next_at and key_next_at, when the next tokens come
(left out if there are some); tokens and key_tokens (of rates, below 0 what a budget owes);
key_waiting (how many tasks with the key wait, 10,000 at
most), waits_for_turn and then turns_ahead (how many turns of others come first, 10,000 at
most), parked (the task is not in the queue, but waits until its key has capacity, is
resumed, or has its turn), hidden (some of this is left out, since the caller may not read
all tasks of the action). start, of a task that is ready or scheduled, has at (when it
starts, about, or with or_later at the earliest), or unknown (why that is not known); before
(how many tasks are handed out first, or more if before_or_more: 10,000 rows of up to 1,000
tasks are counted at most) and per_minute (how many were lately, or may be by the limits;
left out if neither is known).`,
		Example: "  stint explain greet/world",
		GroupID: groupTasks,
		Args:    oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.explain(cmd.Context(), stint.TaskID(args[0]))
		},
	}
}

func (p *program) explain(ctx context.Context, id stint.TaskID) error {
	return p.withTasks(ctx, func(ctx context.Context, db *database) error {
		why, err := db.tasks().Explain(ctx, id)
		if err != nil {
			return err
		}
		if !p.json {
			return p.printf("%s\n", why)
		}
		document := explanationJSON{
			Task: p.newTaskJSON(&why.Task), Missing: why.Missing,
			WaitsFor: p.tasksJSON(why.WaitsFor), BecauseOf: p.tasksJSON(why.BecauseOf),
			AskedAt: utc(why.AskedAt), Actors: why.Actors, Presence: string(why.Presence),
			Copy: why.Copy, Now: utc(why.Now), AnyOf: why.AnyOf,
			Limits: p.taskLimitsJSON(why.Limits, why.Task.Key), Start: newStartJSON(why.Start),
		}
		if why.TriesLeft >= 0 {
			document.TriesLeft = &why.TriesLeft
		}
		return p.printJSON(document)
	})
}
