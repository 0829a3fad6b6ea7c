package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/doctor"
)

func (p *program) checkCommand() *cobra.Command {
	var follows bool
	var lasts time.Duration
	cmd := &cobra.Command{
		Use:        "check",
		SuggestFor: []string{"doctor"},
		Short:      "Look for what is wrong with the tables and the server",
		Long: `Look for what is wrong, and say what to do about it:

  - tables that are not consistent, as the verb Check does
  - tables, indexes and columns that are missing, indexes that are invalid, and old
    functions add_task and finish_task
  - dead rows, autovacuum that is off, and old transactions, prepared transactions and
    replication slots that hold vacuum up
  - transaction numbers that run out
  - settings, for this role or others, that can lose committed data
  - connections that run out, a pooler in between, a hot standby, an old version
  - leases and deadlines that no store acts on, processes that are gone and whose tasks
    were not handed on, actions that nobody asks for, pauses and limits that may be forgotten
  - finished tasks that stay for longer than their retention
  - sequences that are behind the tables, as after a switchover by logical replication
  - the database's clock: whether it goes back, what it has left in the future, and how far
    it is from the clock of this machine

An error is a fault, a warning calls for action, a note is for information. The exit code
is 9 if there are errors or warnings; with --follow, 130 after Ctrl-C, also if something was
found: use --for in scripts. The command changes nothing, and reads all tables from end to
end: a second per hundred thousand tasks.

With --topology it looks only for tables that are not consistent, and for tasks that wait for
others of other shards in vain; check each database by itself for the rest.

With --follow it reads each commit from the server's write-ahead log from now on, replays it
against the rules for tasks, and prints what they forbid: a task with two owners, a move that
no verb makes, a lease taken back too early, a limit exceeded. It ends with Ctrl-C or after
--for. The server must have wal_level = logical and a free replication slot, the account
REPLICATION. It keeps the log that was not read for the slot, which goes with the command; the
command keeps about 350 bytes for each task in the store, and follows some 20,000 tasks a
second. A line each ten seconds says how much log and memory it is.

The role stint_monitor is enough. A note names what the role may not see; to see what the
transactions of other roles hold up, it needs pg_read_all_stats.

With --json: errors, warnings and notes, their numbers; and findings, a list of objects
with severity (error, warning or note), topic, text, and id if it is about one task. With
--follow: an object for each violation, with violation, id and lsn; and each ten seconds one
with commits, moves, violations, tasks, log_kept_bytes, memory_bytes and reading_seconds.`,
		Example: `  stint check
  stint check --json | jq -r '.findings[] | select(.severity == "error").text'
  stint check --follow --for 10m`,
		GroupID: groupOperations,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if follows || lasts != 0 {
				return p.follow(cmd.Context(), follows, lasts)
			}
			return p.withTasks(cmd.Context(), func(ctx context.Context, db *database) error {
				findings, err := db.check(ctx)
				if err != nil && len(findings) == 0 {
					return err
				}
				isPart := db.shards != nil && db.shards.lacks()
				return errors.Join(p.printFindings(findings, isPart), err)
			})
		},
	}
	cmd.Flags().BoolVar(&follows, "follow", false, "check each commit from now on")
	cmd.Flags().DurationVar(&lasts, "for", 0,
		"how long to follow, such as 10m (default until Ctrl-C)")
	return cmd
}

// printFindings prints what was found; isPart says that some shards did not answer.
func (p *program) printFindings(findings []doctor.Finding, isPart bool) error {
	numbers := map[doctor.Severity]int64{}
	for _, f := range findings {
		numbers[f.Severity]++
	}
	if isPart && len(findings) == 0 && !p.json {
		return p.printf("nothing is wrong on the shards that answer\n")
	}
	if err := p.printEach(findings, numbers); err != nil {
		return err
	}
	if numbers[doctor.SeverityError]+numbers[doctor.SeverityWarning] == 0 {
		return nil
	}
	return fmt.Errorf("check: %w: %s, %s", errFindings,
		display.Count(numbers[doctor.SeverityError], "error"),
		display.Count(numbers[doctor.SeverityWarning], "warning"))
}

func (p *program) printEach(findings []doctor.Finding, numbers map[doctor.Severity]int64) error {
	if p.json {
		return p.printJSON(map[string]any{
			"findings": orEmpty(findings), "errors": numbers[doctor.SeverityError],
			"warnings": numbers[doctor.SeverityWarning], "notes": numbers[doctor.SeverityNote],
		})
	}
	if len(findings) == 0 {
		return p.printf("nothing is wrong\n")
	}
	paint := p.painter()
	for _, f := range findings {
		err := p.printf("%s: %s\n", painted(f.Severity, paint), display.Text(f.Text))
		if err != nil {
			return err
		}
	}
	return nil
}

// painted returns the name of a severity in its colour.
func painted(s doctor.Severity, paint display.Painter) string {
	if !paint {
		return string(s)
	}
	const red, yellow, grey = 31, 33, 90
	colour := map[doctor.Severity]int{
		doctor.SeverityError: red, doctor.SeverityWarning: yellow, doctor.SeverityNote: grey,
	}[s]
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colour, s)
}
