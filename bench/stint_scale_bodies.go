package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
)

//go:embed sql/raw_read.sql
var rawReadSQL string

// bodiesWorkload is that of W14 about large bodies and results. Its tasks are mebibytes.
const bodiesWorkload = "W14-bodies"

// Variants of W14-bodies: the size of a body.
var bodySizes = []struct { //nolint:gochecknoglobals // A constant that Go has no word for.
	variant string
	bytes   int
}{
	{"16 KiB", 16 << 10},
	{"256 KiB", 256 << 10},
	{"1 MiB", 1 << 20},
	{"16 MiB", 16 << 20},
	{"64 MiB", 64 << 20},
}

// Figures of W14-bodies. Memory is what the client has at most besides the bodies of the tasks.
const (
	figureCopy         = "raw COPY"
	figureSelect       = "raw SELECT"
	figureInsertBytes  = "insert"
	figureOwnBytes     = "own"
	figureReturnBytes  = "return with results"
	figureInputBytes   = "inputs"
	figureGetBytes     = "get"
	figureInsertMemory = "insert, memory"
	figureOwnMemory    = "own, memory"
	figureReturnMemory = "return, memory"

	unitSpeed = "MiB/s"
)

func bodiesWorkloads() []workload {
	return []workload{{
		id: bodiesWorkload, title: "large bodies and results", tasks: 256, once: true,
		figures: []figure{
			{figureCopy, unitSpeed},
			{figureSelect, unitSpeed},
			{figureInsertBytes, unitSpeed},
			{figureInsertMemory, unitMiB},
			{figureOwnBytes, unitSpeed},
			{figureOwnMemory, unitMiB},
			{figureReturnBytes, unitSpeed},
			{figureReturnMemory, unitMiB},
			{figureInputBytes, unitSpeed},
			{figureGetBytes, unitSpeed},
		},
	}}
}

func bodiesEntries() []entry {
	var entries []entry
	for _, size := range bodySizes {
		entries = append(entries, entry{
			workload: bodiesWorkload, variant: size.variant, measure: moveBodies,
		})
	}
	return entries
}

// A load is large bodies under way.
type load struct {
	*run

	store *stint.Store
	tasks []stint.Task
	owned []stint.OwnedTask
	bytes int // of all bodies
	each  int
}

// moveBodies measures how fast bodies and results go to the server and come back, beside rows of
// the same size.
func moveBodies(ctx context.Context, r *run) error {
	store, err := newStint(ctx, r, 1)
	if err != nil {
		return err
	}
	l := &load{run: r, store: store, bytes: r.Tasks << 20} //nolint:mnd // mebibytes
	for _, size := range bodySizes {
		if size.variant == r.Variant {
			l.each = size.bytes
		}
	}
	l.tasks = stintTasks(0, max(1, l.bytes/l.each), l.each)
	l.bytes = len(l.tasks) * l.each
	err = r.measure(ctx, func(ctx context.Context) (int, error) {
		return len(l.tasks), l.moveAll(ctx)
	})
	return errors.Join(err, checkStint(ctx, r, store), store.Close(ctx))
}

func (l *load) moveAll(ctx context.Context) error {
	ids := make([]stint.TaskID, len(l.tasks))
	for i := range l.tasks {
		ids[i] = l.tasks[i].ID
	}
	reader := stint.Task{ID: "reader", Action: "reader", After: ids}
	for _, move := range []struct {
		figure, memory string
		work           func(context.Context) error
	}{
		{figureCopy, "", l.copyRaw},
		{figureSelect, "", l.readRaw},
		{figureInsertBytes, figureInsertMemory, func(ctx context.Context) error {
			return l.store.InsertTasks(ctx, l.tasks)
		}},
		{"", "", func(ctx context.Context) error {
			return l.store.InsertTasks(ctx, []stint.Task{reader})
		}},
		{figureOwnBytes, figureOwnMemory, l.own},
		{figureReturnBytes, figureReturnMemory, l.giveBack},
		{figureInputBytes, "", l.readInputs},
		{figureGetBytes, "", func(ctx context.Context) error { // bodies and results: one half each
			_, err := l.store.GetTasks(ctx, ids[:(len(ids)+1)/2])
			return err
		}},
	} {
		most := watchHeap()
		begun := now()
		err := move.work(ctx)
		seconds, memory := time.Since(begun).Seconds(), most()
		if err != nil {
			return fmt.Errorf("%s: %w", move.figure, err)
		}
		const mebi = 1 << 20
		if move.figure != "" {
			l.set(move.figure, float64(l.bytes)/mebi/seconds)
		}
		if move.memory != "" {
			l.set(move.memory, memory/mebi)
		}
	}
	return nil
}

// watchHeap looks at the memory of the process until most is called, which returns how much there
// was at most besides what there was at first. Garbage is collected early meanwhile.
func watchHeap() (most func() float64) {
	const percent = 5
	runtime.GC()
	before := debug.SetGCPercent(percent)
	bytes := func() float64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return float64(sample[0].Value.Uint64())
	}
	first, highest := bytes(), 0.0
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			highest = max(highest, bytes()-first)
			select {
			case <-time.After(time.Millisecond):
			case <-stop:
				return
			}
		}
	}()
	return func() float64 {
		close(stop)
		<-stopped
		debug.SetGCPercent(before)
		return highest
	}
}

func (l *load) copyRaw(ctx context.Context) error {
	if _, err := l.observer.Exec(ctx, rawCreateSQL); err != nil {
		return err
	}
	rows := pgx.CopyFromSlice(len(l.tasks), func(i int) ([]any, error) {
		return []any{string(l.tasks[i].ID), l.tasks[i].Body}, nil
	})
	_, err := l.observer.CopyFrom(ctx, pgx.Identifier{"raw_task"}, []string{"id", "body"}, rows)
	return err
}

func (l *load) readRaw(ctx context.Context) error {
	rows, err := l.observer.Query(ctx, rawReadSQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		_ = rows.RawValues() // nothing is made of them
	}
	return rows.Err()
}

// own owns the tasks, as many a call as the store delivers.
func (l *load) own(ctx context.Context) error {
	for len(l.owned) < len(l.tasks) {
		actions := []string{stintAction}
		owned, err := l.store.OwnTasks(ctx, "worker", len(l.tasks), actions, time.Hour)
		if err != nil {
			return err
		}
		for i := range owned {
			owned[i].Body = nil
		}
		l.owned = append(l.owned, owned...)
	}
	return nil
}

// giveBack returns the tasks, with their bodies as results, 64 MiB a call.
func (l *load) giveBack(ctx context.Context) error {
	const together = 64 << 20
	returns := make([]stint.Return, len(l.owned))
	for i, task := range l.owned {
		returns[i] = stint.Return{
			ID: task.ID, Token: task.Token, Code: stint.StatusCompleted, Result: l.tasks[i].Body,
		}
	}
	for n := max(1, together/l.each); len(returns) > 0; returns = returns[min(n, len(returns)):] {
		verdicts, err := l.store.ReturnTasks(ctx, returns[:min(n, len(returns))])
		if err := errors.Join(append(verdicts, err)...); err != nil {
			return err
		}
	}
	return nil
}

func (l *load) readInputs(ctx context.Context) error {
	owned, err := l.store.OwnTasks(ctx, "worker", 1, []string{"reader"}, time.Hour)
	if err != nil {
		return err
	}
	inputs, err := l.store.Inputs(ctx, owned[0])
	if err == nil && len(inputs) != len(l.tasks) {
		err = fmt.Errorf("%d inputs of %d", len(inputs), len(l.tasks))
	}
	return errors.Join(err, l.store.ReturnTask(ctx, owned[0].ID, owned[0].Token, "",
		stint.StatusCompleted))
}
