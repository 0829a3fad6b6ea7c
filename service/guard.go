package service

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
)

// A guard asks the policies whether calls may be made.
type guard struct{ service *Service }

func (g *guard) asks(ctx context.Context) *asking {
	return &asking{ctx: ctx, principal: callerOf(ctx).principal, store: g.service.store}
}

// may asks the policy of a procedure. It does not ask about callers that may do everything.
func (g *guard) may(asks *asking, procedure string, request any) error {
	rule := g.service.policies[procedure]
	switch {
	case rule.may == nil:
		return connect.NewError(connect.CodeUnimplemented,
			fmt.Errorf("%s has no policy", procedure))
	case asks.principal == nil:
		return nil
	}
	return rule.may(asks, request)
}

func (g *guard) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		procedure, asks := request.Spec().Procedure, g.asks(ctx)
		ctx = withKey(ctx, request.Header(), callerOf(ctx).name(), procedure)
		// What the call has done may be why it may not be made any more.
		if err := g.may(asks, procedure, request.Any()); err != nil &&
			!g.service.getsOnlyAnswer(ctx, request.Any()) {
			return nil, asks.redacted(err, request.Any())
		}
		response, err := next(ctx, request)
		if asks.principal == nil {
			return response, err
		}
		var answer any
		if trim := g.service.policies[procedure].trim; err == nil {
			answer = response.Any()
			if trim != nil {
				trim(asks, answer)
			}
		}
		err = asks.redacted(err, request.Any())
		if err = asks.addAbsent(answer, err); err != nil {
			return nil, err
		}
		return response, nil
	}
}

func (*guard) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (g *guard) WrapStreamingHandler(
	next connect.StreamingHandlerFunc,
) connect.StreamingHandlerFunc {
	return func(ctx context.Context, stream connect.StreamingHandlerConn) error {
		asks := g.asks(ctx)
		return asks.redacted(next(ctx, &guarded{stream, g, asks, now()}), nil)
	}
}

// A guarded stream asks about each message that it receives.
type guarded struct {
	connect.StreamingHandlerConn
	guard *guard
	asks  *asking
	asked time.Time // when it was last asked who the caller is
}

func (s *guarded) Receive(message any) error {
	if err := s.StreamingHandlerConn.Receive(message); err != nil {
		return err
	}
	if err := s.askAgain(message); err != nil {
		return err
	}
	return s.guard.may(s.asks, s.Spec().Procedure, message)
}

// askAgain asks who the caller is by now, once a minute and ahead of the message by which a stream
// takes effect: a token or a grant may have been removed since the stream began.
func (s *guarded) askAgain(message any) error {
	by := callerOf(s.asks.ctx)
	last, ok := message.(interface{ GetLast() bool })
	due := ok && last.GetLast() || now().Sub(s.asked) >= attendEvery
	if by.again == nil || !due {
		return nil
	}
	s.asked = now()
	principal, err := by.again()
	if err != nil || principal == nil {
		return errUnknown(err)
	}
	s.asks.principal = principal
	return nil
}
