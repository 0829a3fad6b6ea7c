package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stint-tasks/stint"
)

const (
	idBytesMax = 512 // What the store allows.
	triesMax   = 5
)

// A job names what one pair of directories has in common over all the runs of the program.
type job struct {
	// action is what its tasks have for an action, and what its workers ask for. It tells the pair,
	// so that a run does not go on with the copying of others that was given up.
	action string
	// prefix is what the IDs of its tasks begin with.
	prefix string
}

func newJob(from, to string) job {
	const bytes = 8 // Enough to tell apart the pairs of one database.
	sum := sha256.Sum256([]byte(from + "\x00" + to))
	action := "copy:" + hex.EncodeToString(sum[:bytes])
	return job{action: action, prefix: action + ":"}
}

// name is what tells the job.
func (j job) name() string { return strings.TrimPrefix(j.action, "copy:") }

// task returns the task that copies a file. Its ID follows from the job and the path, so there is
// one task for a file, however often the program is started (the store refuses a second one). The
// body is the path, byte for byte.
func (j job) task(path string) stint.Task {
	return stint.Task{ID: j.id(path), Action: j.action, Body: []byte(path), MaxTries: triesMax}
}

// id returns a path as it is where that makes a valid ID, for people to recognize, else its hash.
// No relative path begins with a slash, so the two kinds do not meet.
func (j job) id(path string) stint.TaskID {
	if id := j.prefix + path; len(id) <= idBytesMax && utf8.ValidString(id) {
		return stint.TaskID(id)
	}
	sum := sha256.Sum256([]byte(path))
	return stint.TaskID(j.prefix + "/" + hex.EncodeToString(sum[:]))
}

// A tree is what a directory holds.
type tree struct {
	files       []entry // Regular files and symbolic links.
	directories []entry // Parents before their children; without the root.
	skipped     []string
	problems    []problem
}

type entry struct {
	path string // Relative to the root.
	info fs.FileInfo
}

// A problem is a reason for which a part of the tree is not copied.
type problem struct {
	path, reason string
}

func walk(ctx context.Context, root string) (*tree, error) {
	t := &tree{}
	err := filepath.WalkDir(root, func(path string, dir fs.DirEntry, err error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		relative, relErr := filepath.Rel(root, path)
		if relErr != nil {
			return relErr
		}
		if err == nil && relative != "." {
			err = t.add(relative, dir)
		}
		if err != nil {
			if relative == "." {
				return err
			}
			t.problems = append(t.problems, problem{relative, err.Error()})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	return t, nil
}

func (t *tree) add(path string, dir fs.DirEntry) error {
	info, err := dir.Info()
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		t.directories = append(t.directories, entry{path, info})
	case copyable(info.Mode()):
		t.files = append(t.files, entry{path, info})
	default:
		t.skipped = append(t.skipped, path)
	}
	return nil
}

// plan sees to it that the store holds a task for every file that is to be copied, and returns the
// ledger of these tasks. For each file there are three cases:
//
//   - The store has no task for it: a new one is inserted.
//   - The task is unfinished, because the earlier run was ended before: it stays as it is, with the
//     tries that it has had.
//   - The task is finished: if the file differs from its copy, by kind, size, time or permission
//     bits, the task is replaced. So a run that goes on copies nothing twice, and tries again what
//     was aborted; and a run long after copies what has changed.
//
// Unfinished tasks of files that have gone since are performed too, and fail, which tells the user.
func plan(
	ctx context.Context, store *stint.Store, job job, tree *tree, copier *copier,
) (*ledger, error) {
	finished, err := storedTasks(ctx, store, job)
	if err != nil {
		return nil, err
	}
	ledger := newLedger()
	var fresh, again []stint.Task
	for _, file := range tree.files {
		task := job.task(file.path)
		done, stored := finished[task.ID]
		delete(finished, task.ID)
		switch {
		case !stored:
			fresh = append(fresh, task)
		case done && copier.differs(file):
			again = append(again, task)
		case done:
			ledger.before++
			continue
		}
		ledger.expect(task.ID, file.info.Size())
	}
	for id, done := range finished { // What is left are files that have gone.
		if !done {
			ledger.expect(id, 0)
		}
	}
	if err := add(ctx, store.InsertTasks, fresh); err != nil {
		return nil, err
	}
	if err := add(ctx, store.ReplaceTasks, again); err != nil {
		return nil, err
	}
	return ledger, nil
}

// storedTasks tells of all tasks of the job whether they are finished.
func storedTasks(ctx context.Context, store *stint.Store, job job) (map[stint.TaskID]bool, error) {
	finished := map[stint.TaskID]bool{}
	filter := stint.Filter{IDPrefix: job.prefix, Limit: 10_000}
	for {
		page, err := store.ListTasks(ctx, filter)
		if err != nil {
			return nil, err
		}
		for _, info := range page.Tasks {
			finished[info.ID] = isFinal(info.StatusCode)
		}
		if page.Next == "" {
			return finished, nil
		}
		filter.After = page.Next
	}
}

func isFinal(code stint.StatusCode) bool {
	return code == stint.StatusCompleted || code == stint.StatusAborted
}

// add inserts or replaces tasks in one transaction, which for ten thousands of them is fast.
//
// Another run of the same job may have done so a moment ago. The store then changes nothing and
// names the tasks in question, which are taken care of; so this drops them and calls again.
func add(
	ctx context.Context, call func(context.Context, []stint.Task) error, tasks []stint.Task,
) error {
	for len(tasks) > 0 {
		err := call(ctx, tasks)
		var named *stint.TaskError
		taken := errors.Is(err, stint.ErrTaskExists) || errors.Is(err, stint.ErrTaskInProgress)
		if !taken || !errors.As(err, &named) {
			return err
		}
		ids := make(map[stint.TaskID]bool, len(named.IDs))
		for _, id := range named.IDs {
			ids[id] = true
		}
		tasks = slices.DeleteFunc(tasks, func(task stint.Task) bool { return ids[task.ID] })
	}
	return nil
}
