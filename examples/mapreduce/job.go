package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stint-tasks/stint/taskstore"
)

// The groups of the tasks.
//
//	map      one for each lot of files: their names
//	part/7   what a lot has of the words of partition 7: the counts
//	reduce   one for each partition: its number
//	counts   one for each partition: the counts of all lots together
//
// Each worker first maps, then reduces. It does a task and, in one update, deletes it and adds what
// came of it. So whatever happens to workers, each task is done once as far as anybody sees: a map
// task is gone exactly when its parts are there, and a reduce task when its counts are there.
const (
	mapGroup    = "map"
	reduceGroup = "reduce"
	countsGroup = "counts"

	// partitions are so many that the counts of one fit into a task.
	partitions = 32
)

func partGroup(partition int) string { return fmt.Sprintf("part/%d", partition) }

// A taskStore is a task store, or a client of one.
type taskStore interface {
	Update(ctx context.Context, r taskstore.Request) ([]taskstore.Task, error)
	Claim(ctx context.Context, c taskstore.Claim) (taskstore.Task, bool, error)
	Group(ctx context.Context, group string, limit int, owned bool) ([]taskstore.Task, error)
}

// A job is a MapReduce.
type job struct {
	store taskStore
	dir   string
	// name begins the names of all groups, so that several jobs may share a store.
	name string
}

// run adds the tasks, does them with so many workers, and returns the counts.
func (j *job) run(ctx context.Context, lots lots, workers int) (counts, error) {
	if err := j.plan(ctx, lots); err != nil {
		return nil, err
	}
	working, workingCtx := errgroup.WithContext(ctx)
	for n := range workers {
		w := &worker{job: j, client: int64(n + 1), lease: leaseFirst}
		if n == 0 && workers > 1 {
			if err := w.stopInTheMiddle(ctx); err != nil {
				return nil, err
			}
			continue
		}
		working.Go(func() error { return w.work(workingCtx) })
	}
	if err := working.Wait(); err != nil {
		return nil, err
	}
	all := counts{}
	ids, err := j.addGroup(ctx, countsGroup, all)
	if err == nil {
		_, err = j.store.Update(ctx, taskstore.Request{Client: planner, Deletes: ids})
	}
	return all, err
}

// planner is the client that adds the tasks. The workers are those from 1 on.
const planner = 1_000_000

// plan adds the tasks to map and to reduce.
func (j *job) plan(ctx context.Context, lots lots) error {
	request := taskstore.Request{Client: planner}
	for _, lot := range lots {
		names, err := json.Marshal(lot)
		if err != nil {
			return err
		}
		request.Adds = append(request.Adds, taskstore.Add{
			Group: j.name + mapGroup, Data: names,
		})
	}
	for partition := range partitions {
		number, err := json.Marshal(partition)
		if err != nil {
			return err
		}
		request.Adds = append(request.Adds, taskstore.Add{
			Group: j.name + reduceGroup, Data: number,
		})
	}
	_, err := j.store.Update(ctx, request)
	return err
}

// addGroup adds the counts of all tasks of a group to others, and returns the IDs of the tasks.
func (j *job) addGroup(ctx context.Context, group string, to counts) (ids []int64, err error) {
	tasks, err := j.store.Group(ctx, j.name+group, 0, true)
	if err != nil {
		return nil, err
	}
	for _, task := range tasks {
		var part counts
		if err := json.Unmarshal(task.Data, &part); err != nil {
			return nil, err
		}
		to.add(part)
		ids = append(ids, task.ID)
	}
	return ids, nil
}

// A worker does tasks.
type worker struct {
	*job
	client int64
	// lease is for how long it claims a task. It grows when that was too short.
	lease time.Duration
}

const leaseFirst = 2 * time.Second

// work maps as long as there is something to map, also with others, and then reduces.
func (w *worker) work(ctx context.Context) error {
	if err := w.drain(ctx, mapGroup, w.mapLot); err != nil {
		return err
	}
	return w.drain(ctx, reduceGroup, w.reduce)
}

// stopInTheMiddle claims a task and never does it.
func (w *worker) stopInTheMiddle(ctx context.Context) error {
	_, _, err := w.store.Claim(ctx, taskstore.Claim{
		Client: w.client, Group: w.name + mapGroup, Duration: w.lease,
	})
	return err
}

// drain does the tasks of a group until it has none, whoever owns them: another worker may stop in
// the middle of its task, which is available again when its time has passed.
func (w *worker) drain(
	ctx context.Context, group string,
	do func(context.Context, taskstore.Task) (taskstore.Request, error),
) error {
	for {
		task, found, err := w.store.Claim(ctx, taskstore.Claim{
			Client: w.client, Group: w.name + group, Duration: w.lease,
		})
		if err != nil {
			return err
		}
		if !found {
			left, err := w.store.Group(ctx, w.name+group, 1, true)
			if err != nil || len(left) == 0 {
				return err
			}
			const pause = 20 * time.Millisecond
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(pause):
			}
			continue
		}
		request, err := do(ctx, task)
		if err != nil {
			return err
		}
		_, err = w.store.Update(ctx, request)
		if errors.Is(err, taskstore.ErrConflict) {
			w.lease *= 2 // it was too slow, and another has claimed the task
			continue
		}
		if err != nil {
			return err
		}
	}
}

// mapLot counts the words of a lot, and gives each partition its part.
func (w *worker) mapLot(_ context.Context, task taskstore.Task) (taskstore.Request, error) {
	request := taskstore.Request{Client: w.client, Deletes: []int64{task.ID}}
	var names []string
	if err := json.Unmarshal(task.Data, &names); err != nil {
		return request, err
	}
	all := counts{}
	if err := all.addFiles(w.dir, names); err != nil {
		return request, err
	}
	parts := make([]counts, partitions)
	for word, n := range all {
		partition := partitionOf(word)
		if parts[partition] == nil {
			parts[partition] = counts{}
		}
		parts[partition][word] = n
	}
	for partition, part := range parts {
		data, err := json.Marshal(part)
		if err != nil {
			return request, err
		}
		if part != nil {
			request.Adds = append(request.Adds, taskstore.Add{
				Group: w.name + partGroup(partition), Data: data,
			})
		}
	}
	return request, nil
}

func partitionOf(word string) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(word)) // never fails
	return int(hash.Sum32() % partitions)
}

// reduce adds up the parts of a partition.
func (w *worker) reduce(ctx context.Context, task taskstore.Task) (taskstore.Request, error) {
	request := taskstore.Request{Client: w.client, Deletes: []int64{task.ID}}
	var partition int
	if err := json.Unmarshal(task.Data, &partition); err != nil {
		return request, err
	}
	sum := counts{}
	parts, err := w.addGroup(ctx, partGroup(partition), sum)
	if err != nil {
		return request, err
	}
	request.Deletes = append(request.Deletes, parts...)
	data, err := json.Marshal(sum)
	request.Adds = []taskstore.Add{{Group: w.name + countsGroup, Data: data}}
	return request, err
}
