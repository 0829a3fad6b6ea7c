package branch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

// A Tree is the objects of a commit by their paths, which have slashes between their parts.
type Tree map[string]Object

// An Object is a content.
type Object struct {
	ID  int64
	Sum string // its SHA-256
}

// A Change of an object is its new content, or nil if it is to go.
type Change struct {
	Path    string
	Content []byte
}

// AddBranch makes a branch without commits unless it exists, and its destination. The prefixes are
// those that get a _SUCCESS object.
func (e *Exporter) AddBranch(ctx context.Context, branch string, prefixes []string) error {
	if branch == "" || branch[0] == '.' || filepath.Base(branch) != branch {
		return fmt.Errorf("branch %q: want a plain name", branch)
	}
	return e.inTx(ctx, func(tx pgx.Tx, _ *stint.Store) error {
		_, err := tx.Exec(ctx, statement("add_branch"),
			branch, append([]string{}, prefixes...)) // Not NULL.
		if err != nil {
			return err
		}
		if _, err := lockBranch(ctx, tx, branch); err != nil {
			return err
		}
		return e.makeDestination(branch)
	})
}

// lockBranch locks a branch until the transaction ends, and returns its newest commit.
func lockBranch(ctx context.Context, tx pgx.Tx, branch string) (head int64, err error) {
	err = tx.QueryRow(ctx, statement("lock_branch"), branch).Scan(&head)
	return head, err
}

// nextRequest counts a request.
func nextRequest(ctx context.Context, tx pgx.Tx, branch string) (number int64, err error) {
	err = tx.QueryRow(ctx, statement("count_request"), branch).Scan(&number)
	return number, err
}

// apply writes a commit.
func apply(ctx context.Context, tx pgx.Tx, branch string, commit int64, changes []Change) error {
	batch := &pgx.Batch{}
	for _, change := range changes {
		batch.Queue(statement("remove_object"), branch, change.Path, commit)
		if change.Content != nil {
			batch.Queue(statement("add_object"), branch, change.Path, commit, change.Content)
		}
	}
	batch.Queue(statement("move_head"), branch, commit)
	return tx.SendBatch(ctx, batch).Close()
}

// A querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func readTree(ctx context.Context, from querier, branch string, commit int64) (Tree, error) {
	rows, err := from.Query(ctx, statement("list_objects"), branch, commit)
	if err != nil {
		return nil, err
	}
	tree := Tree{}
	var name string
	var object Object
	_, err = pgx.ForEachRow(rows, []any{&name, &object.ID, &object.Sum}, func() error {
		tree[name] = object
		return nil
	})
	return tree, err
}

func readPrefixes(ctx context.Context, from querier, branch string) ([]string, error) {
	var prefixes []string
	err := from.QueryRow(ctx, statement("branch_prefixes"), branch).
		Scan(&prefixes)
	return prefixes, err
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
