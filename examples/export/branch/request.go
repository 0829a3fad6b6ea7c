package branch

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

// Commit makes the next commit of a branch, and asks for its export, in one transaction: there is
// no commit without its request, and no request for a commit that was rolled back. What changes is
// decided under the lock of the branch, and anew if the transaction has to begin again; if that is
// nothing, there is no commit.
func (e *Exporter) Commit(
	ctx context.Context, branch string, decide func(head int64, tree Tree) []Change,
) (made bool, err error) {
	err = e.inTx(ctx, func(tx pgx.Tx, tasks *stint.Store) error {
		head, err := lockBranch(ctx, tx, branch)
		if err != nil {
			return err
		}
		tree, err := readTree(ctx, tx, branch, head)
		if err != nil {
			return err
		}
		changes := decide(head, tree)
		made = len(changes) > 0
		if !made {
			return nil
		}
		if err := apply(ctx, tx, branch, head+1, changes); err != nil {
			return err
		}
		return request(ctx, tx, tasks, branch, head+1)
	})
	return made, err
}

// Request asks for the export of the newest commit once more, if there is one. Whatever else is in
// the destination is put right by it.
func (e *Exporter) Request(ctx context.Context, branch string) error {
	return e.inTx(ctx, func(tx pgx.Tx, tasks *stint.Store) error {
		head, err := lockBranch(ctx, tx, branch)
		if err != nil || head == 0 {
			return err
		}
		return request(ctx, tx, tasks, branch, head)
	})
}

// request puts a request for the export of a commit in the place of any older one. The caller has
// locked the branch. There are four cases, and in none does it wait for a worker:
//
//   - Nothing is under way: next-export is new, and ready at the commit.
//   - An export is under way: next-export is new, or replaces an older request, and waits for
//     done-export. Edges do not outlive the task that is replaced, so this one gets its own. That
//     is in the same transaction, so nobody can be given the task before it has its edge.
//   - The export ends at this moment: AddDependencies finds done-export unfinished, and its end
//     waits for this transaction and signals; or finds it finished, and there is nothing to wait
//     for. There is no third possibility.
//   - A worker has next-export in its hands, or died with it. It cannot be replaced, and has no
//     need to: whoever performs it locks the branch, until the task is returned, and reads the
//     newest request then. As the lock is ours, that is still to come.
func request(
	ctx context.Context, tx pgx.Tx, tasks *stint.Store, branch string, commit int64,
) error {
	number, err := nextRequest(ctx, tx, branch)
	if err != nil {
		return err
	}
	next := stint.Task{
		ID: nextID(branch), Action: actionNext, Priority: priorityCycle,
		Body: body{Branch: branch, Request: number, Commit: commit}.bytes(),
		// If the export under way fails, the next one must not go down with it.
		OnAbort: stint.RunAnyway,
	}
	err = tasks.ReplaceTasks(ctx, []stint.Task{next})
	joined := errors.Is(err, stint.ErrTaskInProgress)
	if err != nil && !joined {
		return err
	}
	if !joined {
		after := stint.Dependency{Predecessor: doneID(branch), Dependent: next.ID}
		err := tasks.AddDependencies(ctx, []stint.Dependency{after})
		idle := errors.Is(err, stint.ErrTaskFinished) || errors.Is(err, stint.ErrTaskNotFound)
		if err != nil && !idle {
			return err
		}
	}
	_, err = tx.Exec(ctx, statement("add_request"), branch, number, commit, joined)
	return err
}
