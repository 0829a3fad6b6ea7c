// Package service offers the verbs of a store over the network, to clients in any language: gRPC,
// gRPC-Web, and JSON over HTTP/1.1 and HTTP/2, on one port. The package client has the same verbs
// for Go, and api/proto/stint/v1 says what the messages mean:
//
//	curl -d '{"tasks":[{"id":"a","action":"mail","text":"{\"to\":1234}"}]}' \
//		-H 'Content-Type: application/json' \
//		http://localhost:7330/stint.v1.TaskService/InsertTasks
//
// [Options.Authenticate] says who has sent a request, and the package access who may do what. Any
// number of services may use one schema, and a client may use another one for each call. When a
// service ends or dies, remote actors keep the tasks that they own.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/outage"
	"github.com/stint-tasks/stint/service/access"
	"github.com/stint-tasks/stint/shards"
)

const (
	// waitMax is how long a call waits for tasks at most: proxies cut connections off that are
	// silent for longer.
	waitMax = 25 * time.Second

	// answerBytesMax is the size of the bodies and results in an answer, less than a client reads.
	answerBytesMax = 72 << 20

	// answerBytes is how much the results in a page of inputs have together, unless asked
	// otherwise.
	answerBytes = 8 << 20
)

// A Service is a handler of requests. It answers below /stint.v1.TaskService/,
// /stint.v1.WorkerService/ and /stint.v1.ClusterService/.
type Service struct {
	pool    *pgxpool.Pool
	store   *stint.Store
	logger  *slog.Logger
	grace   time.Duration
	cluster *shards.Cluster // or nil
	shard   string
	// handler answers requests.
	handler http.Handler

	authenticate func(r *http.Request) (*access.Principal, error)
	limits       limits
	budget       *budget
	policies     map[string]policy
	seal         seal
	metrics      Metrics      // or nil
	accessLog    *slog.Logger // or nil

	// silence is silenceMax, except in tests.
	silence time.Duration
	// failures logs what has failed for no fault of the caller.
	failures *outage.Tallies
	// unready logs why requests cannot be served.
	unready *outage.Log
	// refusals writes errors of requests that no verb sees.
	refusals *connect.ErrorWriter

	// draining ends when the service is to take no more requests that wait.
	draining context.Context //nolint:containedctx // of the service, not of a call
	drain    context.CancelFunc
	// attending are the streams, and the actors that are dismissed unless they come back. The mutex
	// keeps new streams from beginning while the service drains.
	mutex     sync.Mutex
	attending sync.WaitGroup
}

// ServeHTTP answers a request.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handler.ServeHTTP(w, r)
}

// Drain ends the calls that wait, with empty answers, and the streams of actors, which open others
// elsewhere; new ones end at once. Other calls go on. Call it before http.Server.Shutdown, which
// would wait for the streams for ever, or give it to RegisterOnShutdown.
func (s *Service) Drain() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.drain()
}

// begin counts a stream, unless the service drains. The stream calls attending.Done at its end.
func (s *Service) begin() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.draining.Err() != nil {
		return false
	}
	s.attending.Add(1)
	return true
}

// Close drains the service, and waits until nothing uses the store any more but calls, which
// http.Server.Shutdown waits for. The tasks of remote actors stay with them.
func (s *Service) Close(ctx context.Context) error {
	s.Drain()
	defer s.failures.Flush()
	ended := make(chan struct{})
	go func() {
		s.attending.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close service: %w", ctx.Err())
	}
}

// waiting calls work with a context that lasts no longer than the wait asked for, and ends when the
// service drains. It reports whether the context, but not the call, had ended when work failed.
func (s *Service) waiting(
	ctx context.Context, wait time.Duration, work func(ctx context.Context) error,
) (over bool, err error) {
	if s.draining.Err() != nil {
		return false, stint.ErrClosed // the client asks another service
	}
	if err := callerOf(ctx).wait(); err != nil {
		return false, err
	}
	defer callerOf(ctx).resume()
	waiting, cancel := context.WithTimeout(ctx, min(wait, waitMax))
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)()
	err = work(waiting)
	return ctx.Err() == nil && waiting.Err() != nil && errors.Is(err, waiting.Err()), err
}

// Options adjust a [Service]. The zero value is a good default.
type Options struct {
	// Grace is how long a remote actor may be without a stream before its tasks are handed on.
	// Default: 750 ms.
	Grace time.Duration

	// Authenticate finds out who has sent a request. Its errors are told to whoever has, so they
	// must not say too much of credentials. One with a code of Connect keeps it, such as
	// CodeUnavailable if the caller is to try again; others are CodeUnauthenticated. Default:
	// nobody is asked who he is, and everybody who can reach the service may do everything.
	Authenticate func(r *http.Request) (*access.Principal, error)

	// Limits bound what each principal may ask for at a time.
	Limits Limits

	// Cluster has the shards of which the store of the service is one: then the service inserts
	// tasks on all of them. The caller runs it ([shards.Cluster.Run]) and closes it. Default: none.
	Cluster *shards.Cluster

	// Shard is the name of the store's shard in Cluster.
	Shard string

	// Metrics receives the calls, for example stintprom.ServiceMetrics, which counts and times them
	// for Prometheus. Default: none.
	Metrics Metrics

	// AccessLog gets a record of each call at level Info when it has ended: its procedure, the name
	// of the principal, the code of Connect or "ok", how long it took, and how many bytes of the
	// request were read, but nothing that is in them. Default: none.
	AccessLog *slog.Logger

	// Interceptors are called outside of those of the service, the first one outermost: so they see
	// the errors that are sent, and no requests of callers who are not known. For spans, take
	// connectrpc.com/otelconnect.
	Interceptors []connect.Interceptor

	// Logger gets a warning of calls that fail for a reason that their callers cannot know, such as
	// a database that is away: the first at once, then once a minute with how many there were. Each
	// by itself is logged at the level Debug. Default: [slog.Default].
	Logger *slog.Logger
}
