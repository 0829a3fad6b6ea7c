package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/worker"
)

// The tasks of the purchase.
const (
	prepared stint.TaskID = "purchase/7/prepare"
	approved stint.TaskID = "purchase/7/approve"
	ordered  stint.TaskID = "purchase/7/order"
	told     stint.TaskID = "purchase/7/tell"
)

// insert inserts the purchase, and returns the key by which somebody can approve it.
//
// The question is there, with its key, before anybody is asked: so no answer comes too early. It
// waits for nothing, and the order waits for it as well as for what is prepared.
func insert(ctx context.Context, store *stint.Store) (stint.AnswerKey, error) {
	key := stint.NewAnswerKey()
	return key, store.InsertTasks(ctx, []stint.Task{
		{ID: prepared, Action: "prepare"},
		{
			ID: approved, Action: stint.External, AnswerKey: key,
			Deadline: time.Now().AddDate(0, 0, 7), // aborted then, as if the answer was no
		},
		{ID: ordered, Action: "order", After: []stint.TaskID{prepared, approved}},
		{
			ID: told, Action: "tell", After: []stint.TaskID{ordered}, OnAbort: stint.RunAnyway,
			PostResult: true,
		},
	})
}

// newWorker returns a worker that performs everything but the approval.
func newWorker(store *stint.Store, link string, stdout io.Writer) (*worker.Worker, error) {
	say := func(text string) worker.Handler {
		return func(context.Context, *worker.Task) (worker.Result, error) {
			fmt.Fprintln(stdout, text)
			return worker.Result{}, nil
		}
	}
	return worker.New(store, worker.Options{},
		worker.Handle("prepare", say("the purchase is prepared; approve it here:\n  "+link)),
		worker.Handle("order", say("it is approved, and ordered")),
		worker.Handle("tell", func(
			_ context.Context, task *worker.Task,
		) (worker.Result, error) {
			if task.Aborted > 0 {
				fmt.Fprintln(stdout, "it was refused, or nobody answered: nothing was ordered")
			}
			return worker.Result{}, nil
		}))
}

// purchase makes a purchase, from its insert to its end.
func purchase(ctx context.Context, dsn, address string, once bool, stdout io.Writer) (err error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	err = pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return migrations.Migrate(ctx, conn.Conn())
	})
	if err != nil {
		return err
	}
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(context.WithoutCancel(ctx))) }()
	answers, err := service.New(pool, store, service.Options{})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: pages(answers.Answers()), ReadHeaderTimeout: 10 * time.Second,
	}
	go server.Serve(listener) //nolint:errcheck // until it is closed
	defer server.Close()      //nolint:errcheck // the process ends

	key, err := insert(ctx, store)
	if err != nil {
		return err
	}
	query := url.Values{"id": {string(approved)}, "key": {string(key)}}
	base := "http://" + listener.Addr().String()
	w, err := newWorker(store, base+"/approve?"+query.Encode(), stdout)
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	if once {
		err = approve(ctx, store, base, query, stdout)
	}
	if err == nil {
		_, err = store.WaitForTask(ctx, told)
	}
	stop()
	return errors.Join(err, <-ended)
}
