package branch

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A Report is what the application's own tables and the files in the destination tell of a branch.
// The store is not asked.
type Report struct {
	Branch     string
	Requests   int64
	Exports    int64
	Superseded int64 // Requests that no export was for.
	Together   int64 // The largest number of exports under way at the same time.
	Tasks      int64 // Copies, deletes and _SUCCESS objects.
	Exported   int64 // The commit that was exported last.
	Head       int64 // The newest commit.
	Objects    int64 // In it.
	// Problems are what is not as promised.
	Problems []string
}

func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// Report checks a branch all of whose tasks have finished.
func (e *Exporter) Report(ctx context.Context, branch string) (*Report, error) {
	r := &Report{Branch: branch}
	err := pgx.BeginTxFunc(ctx, e.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead},
		func(tx pgx.Tx) error {
			if err := r.count(ctx, tx); err != nil {
				return err
			}
			return r.checkLog(ctx, tx)
		})
	if err != nil {
		return r, err
	}
	if r.Head == 0 {
		return r, nil
	}
	if r.Exported != r.Head {
		r.problem("the last export is of commit %d, the newest commit is %d", r.Exported, r.Head)
	}
	return r, r.checkDestination(ctx, e)
}

func (r *Report) count(ctx context.Context, tx pgx.Tx) error {
	query := statement("report_branch")
	err := tx.QueryRow(ctx, query, r.Branch).Scan(&r.Head, &r.Requests, &r.Exports, &r.Superseded,
		&r.Together, &r.Tasks, &r.Exported, &r.Objects)
	if err != nil {
		return err
	}
	if r.Together > 1 {
		r.problem("%d exports were under way at the same time", r.Together)
	}
	return nil
}

// checkLog looks for rows that must not be. Each query returns the numbers of exports.
func (r *Report) checkLog(ctx context.Context, tx pgx.Tx) error {
	checks := []struct{ problem, query string }{
		{"an export was of an older request than the one before", statement("older_requests")},
		{
			"next-export was performed with an old request, though a newer one had replaced it",
			statement("replaced_requests"),
		},
		{
			"a _SUCCESS object was made before an object below its prefix",
			statement("early_success"),
		},
		{"tasks were neither performed nor aborted", statement("unperformed_tasks")},
	}
	for _, check := range checks {
		rows, err := tx.Query(ctx, check.query, r.Branch)
		if err != nil {
			return err
		}
		exports, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		for _, export := range exports {
			r.problem("export %d: %s", export, check.problem)
		}
	}
	return nil
}

// checkDestination compares the destination with the newest commit, object by object.
func (r *Report) checkDestination(ctx context.Context, e *Exporter) error {
	tree, err := readTree(ctx, e.pool, r.Branch, r.Head)
	if err != nil {
		return err
	}
	prefixes, err := readPrefixes(ctx, e.pool, r.Branch)
	if err != nil {
		return err
	}
	want := map[string]string{}
	for name, object := range tree {
		want[name] = object.Sum
	}
	for _, prefix := range prefixes {
		want[prefix+"/"+successName] = sumOf(successContent(r.Head))
	}
	to, err := e.openDestination(r.Branch)
	if err != nil {
		return err
	}
	defer to.close()
	found, err := to.list()
	if err != nil {
		return err
	}
	for _, name := range sortedKeys(want) {
		switch sum, ok := found[name]; {
		case !ok:
			r.problem("the destination lacks %q", name)
		case sum != want[name]:
			r.problem("the destination has other bytes in %q", name)
		}
		delete(found, name)
	}
	for _, name := range sortedKeys(found) {
		r.problem("the destination has %q, the commit has not", name)
	}
	return r.checkManifest(to)
}

func (r *Report) checkManifest(to *destination) error {
	var list manifest
	content, err := to.readManifest(r.Exports)
	if err == nil {
		err = json.Unmarshal(content, &list)
	}
	switch {
	case err != nil:
		r.problem("no manifest of the last export: %v", err)
	case list.Commit != r.Head || int64(len(list.Objects)) != r.Objects || list.Aborted != 0:
		r.problem("the last manifest is of commit %d with %d objects, and %d tasks failed",
			list.Commit, len(list.Objects), list.Aborted)
	}
	return nil
}
