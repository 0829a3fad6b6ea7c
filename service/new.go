package service

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1/stintv1connect"
	"github.com/stint-tasks/stint/internal/outage"
	"github.com/stint-tasks/stint/internal/safely"
	"github.com/stint-tasks/stint/service/access"
)

// graceDefault is longer than an actor takes to open another stream.
const graceDefault = 750 * time.Millisecond

// New returns a service of store, which uses pool for transactions of several verbs. Both stay the
// caller's, and must be open for longer than the service.
func New(pool *pgxpool.Pool, store *stint.Store, options Options) (*Service, error) {
	switch {
	case pool == nil || store == nil:
		return nil, errors.New("new service: pool and store must not be nil")
	case options.Grace < 0:
		return nil, errors.New("new service: Options.Grace must not be negative")
	case options.Limits.negative():
		return nil, errors.New("new service: Options.Limits must not be negative")
	case options.Grace == 0:
		options.Grace = graceDefault
	}
	s := &Service{
		pool: pool, store: store, logger: safely.LoggerOr(options.Logger), grace: options.Grace,
		authenticate: options.Authenticate, policies: newPolicies(),
		cluster: options.Cluster, shard: options.Shard,
		limits: newLimits(options.Limits, pool.Config().MaxConns), silence: silenceMax,
		seal: seal{pool: pool, schema: store.Schema()}, metrics: options.Metrics,
		accessLog: options.AccessLog,
	}
	s.failures = outage.NewTallies(s.logger)
	s.budget = newBudget(s.limits.Bytes, max(s.limits.RequestBytes, answerBytesMax),
		s.authenticate != nil)
	s.unready = outage.New(s.logger, "the service is not ready")
	s.draining, s.drain = context.WithCancel(context.Background())
	handlerOptions := []connect.HandlerOption{
		connect.WithReadMaxBytes(s.limits.RequestBytes), strictCodecs(),
		connect.WithCodec(boundedBinary{}),
		// To compress answers takes a third of the time of a large fetch, and what a small
		// request makes when it is decompressed takes as long as its sender likes.
		connect.WithCompression("gzip", nil, nil),
		connect.WithInterceptors(recorder{}),
		connect.WithInterceptors(options.Interceptors...),
		connect.WithInterceptors(&translator{s}, weigher{}, &guard{s}),
	}
	s.refusals = connect.NewErrorWriter(handlerOptions...)
	mux := http.NewServeMux()
	path, handler := stintv1connect.NewTaskServiceHandler(&taskService{s}, handlerOptions...)
	mux.Handle(path, handler)
	mux.Handle(stintv1connect.TaskServiceInsertTasksFromProcedure, s.impatient(handler))
	mux.Handle(stintv1connect.NewWorkerServiceHandler(&workerService{s}, handlerOptions...))
	mux.Handle(stintv1connect.NewClusterServiceHandler(&clusterService{s}, handlerOptions...))
	s.handler = s.observed(posted(s.timed(s.admitted(s.sized(s.weighed(mux))))))
	return s, nil
}

// Guard returns a handler that passes on the requests of principals that may do something which is
// no verb of this service, such as [access.TaskStore], within their limits. Answers of the task
// store may be as large as the largest one of this service, and take room as if they were.
func (s *Service) Guard(verb access.Verb, next http.Handler) http.Handler {
	if verb == access.TaskStore {
		next = s.roomy(next)
	}
	next = s.weighed(next)
	return s.timed(s.admitted(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if principal := Principal(r.Context()); !principal.Has(verb) {
			http.Error(w, stint.ErrRefused.Error()+": it needs a grant of "+string(verb),
				http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})))
}

// roomy returns a handler that takes room for the largest answer ahead of each request that reads.
func (s *Service) roomy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			if err := callerOf(r.Context()).room.hold(r.Context(), answerBytesMax); err != nil {
				s.refuse(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
