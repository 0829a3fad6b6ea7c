package branch

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

// recordNothing is for tasks that leave nothing in the database but their performance.
func recordNothing(context.Context, pgx.Tx, *stint.Store) error { return nil }

// copy puts an object in its place.
func (e *Exporter) copy(ctx context.Context, task *ownedTask) (record, error) {
	var content []byte
	err := e.pool.QueryRow(ctx, statement("object_content"), task.body.Object).
		Scan(&content)
	if err != nil {
		return nil, err
	}
	return e.put(task, task.body.Path, content)
}

// success says that all the objects below a prefix are in place, and of which commit they are. The
// _SUCCESS of an earlier export stays until then, and tells by its commit that it is not of this.
func (e *Exporter) success(_ context.Context, task *ownedTask) (record, error) {
	return e.put(task, task.body.Path+"/"+successName, successContent(task.body.Commit))
}

func successContent(commit int64) []byte { return fmt.Appendf(nil, "commit %d\n", commit) }

func (e *Exporter) put(task *ownedTask, name string, content []byte) (record, error) {
	to, err := e.openDestination(task.body.Branch)
	if err != nil {
		return nil, err
	}
	defer to.close()
	return recordNothing, to.put(task.body.Fence, name, content)
}

// remove deletes what the commit does not have.
func (e *Exporter) remove(_ context.Context, task *ownedTask) (record, error) {
	to, err := e.openDestination(task.body.Branch)
	if err != nil {
		return nil, err
	}
	defer to.close()
	return recordNothing, to.remove(task.body.Fence, task.body.Path)
}

// A manifest lists the objects of an export that has ended.
type manifest struct {
	Commit  int64             `json:"commit"`
	Objects map[string]string `json:"objects"` // the hashes by path
	// Aborted is how many tasks of the export failed for good.
	Aborted int `json:"aborted"`
}

func (e *Exporter) manifest(ctx context.Context, task *ownedTask) (record, error) {
	tree, err := readTree(ctx, e.pool, task.body.Branch, task.body.Commit)
	if err != nil {
		return nil, err
	}
	// done-export is spontaneous, so it passes on the numbers of the tasks that it waited for.
	list := manifest{Commit: task.body.Commit, Objects: map[string]string{}, Aborted: task.Aborted}
	for name, object := range tree {
		list.Objects[name] = object.Sum
	}
	content, err := json.MarshalIndent(list, "", "\t")
	if err != nil {
		return nil, err
	}
	to, err := e.openDestination(task.body.Branch)
	if err != nil {
		return nil, err
	}
	defer to.close()
	if err := to.putManifest(task.body.Export, content); err != nil {
		return nil, err
	}
	return func(ctx context.Context, tx pgx.Tx, _ *stint.Store) error {
		_, err := tx.Exec(ctx, statement("count_aborted"),
			task.body.Branch, task.body.Export, task.Aborted)
		return err
	}, nil
}
