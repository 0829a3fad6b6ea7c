package work

import (
	"context"
	_ "embed"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

//go:embed sql/finish_task.sql
var finishTaskSQL string

//go:embed sql/add_receipt.sql
var addReceiptSQL string

// FinishTask is the SQL function, as a verb: a [Returns].
const FinishTask = "finish_task"

// The errors of finish_task that say that the token is not good, and that an earlier transaction
// has ended the task like this.
const (
	invalidToken    = "STI05"
	alreadyReturned = "STI06"
)

// finish completes a task by finish_task, in a transaction with a receipt of its own. If its answer
// is lost, it repeats the transaction.
func (l *loop) finish(ctx context.Context, task stint.OwnedTask) {
	const attempts = 3
	for range attempts {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callMax)
		begin, committing := Instant(), false
		err := l.commitEnd(ctx, task, &committing)
		cancel()
		call := Call{Verb: FinishTask, Begin: begin, Items: []Item{{
			ID: task.ID, Token: &task.Token, Said: string(stint.StatusCompleted),
		}}}
		call.Outcome, call.Error = judgeFinish(err, committing)
		l.journal.Write(call)
		switch {
		case err == nil:
			l.tally.add(1)
			return
		case call.Outcome == OK, call.Error == "ErrInvalidToken":
			return
		}
	}
}

// judgeFinish is Judge for a transaction that calls finish_task.
func judgeFinish(err error, committing bool) (Outcome, string) {
	outcome, kind := Judge(err)
	switch {
	case kind == alreadyReturned:
		return OK, AlreadyReturned
	case kind == invalidToken:
		return Refused, "ErrInvalidToken"
	case outcome == Unknown && !committing:
		return Refused, kind // the transaction was not committed
	}
	return outcome, kind
}

func (l *loop) commitEnd(
	ctx context.Context, task stint.OwnedTask, committing *bool,
) error {
	tx, err := l.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // or it is done
	id, token := string(task.ID), task.Token.String()
	if _, err := tx.Exec(ctx, addReceiptSQL, id, token); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, l.inSchema(finishTaskSQL), id, token, resultOf(task.ID), spentOn(&task))
	if err != nil {
		return err
	}
	*committing = true
	return tx.Commit(ctx)
}

// inSchema is a statement for the schema of the store.
func (p *process) inSchema(statement string) string {
	return strings.ReplaceAll(statement, "stint.", pgx.Identifier{p.Schema}.Sanitize()+".")
}
