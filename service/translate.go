package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/outage"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/shards"
)

// A translator makes the errors of calls those that clients understand.
type translator struct{ service *Service }

func (t *translator) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		response, err := next(ctx, request)
		if err != nil {
			return nil, t.service.translated(ctx, request.Spec().Procedure, err)
		}
		return response, nil
	}
}

func (*translator) WrapStreamingClient(
	next connect.StreamingClientFunc,
) connect.StreamingClientFunc {
	return next
}

func (t *translator) WrapStreamingHandler(
	next connect.StreamingHandlerFunc,
) connect.StreamingHandlerFunc {
	return func(ctx context.Context, stream connect.StreamingHandlerConn) error {
		if err := next(ctx, stream); err != nil {
			return t.service.translated(ctx, stream.Spec().Procedure, err)
		}
		return nil
	}
}

// translated returns an error as it travels. An error that is not about the call is logged, and its
// text stays here.
func (s *Service) translated(ctx context.Context, procedure string, err error) error {
	var known *connect.Error
	if errors.As(err, &known) {
		return err
	}
	if detail, code, ok := wire.Detail(err); ok {
		translated := connect.NewError(code, errors.New(wire.Text(err)))
		if packed, err := connect.NewErrorDetail(detail); err == nil {
			translated.AddDetail(packed)
		}
		if errors.Is(err, stint.ErrSchemaVersion) {
			s.log(ctx, procedure, err)
		}
		return translated
	}
	switch {
	case ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	case ctx.Err() != nil:
		return connect.NewError(connect.CodeCanceled, err)
	}
	s.log(ctx, procedure, err)
	if owned := undelivered(nil); errors.As(err, &owned) {
		return connect.NewError(connect.CodeUnavailable,
			errors.New("tasks were fetched that could not be delivered: repeat the claim"))
	}
	var answer *pgconn.PgError
	if errors.As(err, &answer) && answer.SeverityUnlocalized == "ERROR" {
		return connect.NewError(connect.CodeInternal,
			errors.New("the database refuses the call; the service's log says why"))
	}
	if at := new(shards.ShardError); errors.As(err, &at) {
		return connect.NewError(connect.CodeUnavailable,
			fmt.Errorf("the database of shard %s does not answer", at.Shard))
	}
	return connect.NewError(connect.CodeUnavailable, errors.New("the database does not answer"))
}

// An undelivered error of a store says that tasks are owned under the claim of a call. It goes for
// whatever the database refuses, so it is looked for ahead of that.
type undelivered interface {
	error
	Undelivered()
}

// log logs that a call has failed: at once if it is the first for a minute, else with the others at
// the end of the minute. A database that is away fails all procedures alike, so they are counted
// together; what it refuses is counted by procedure.
func (s *Service) log(ctx context.Context, procedure string, err error) {
	kind := outage.Kind{What: "call failed", Level: slog.LevelWarn}
	if answer := new(pgconn.PgError); errors.As(err, &answer) {
		if _, known := s.policies[procedure]; known {
			kind.Of = procedure
		}
	}
	s.failures.Failed(ctx, kind, slog.String("procedure", procedure), slog.Any("error", err))
}
