package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/wire"
)

const (
	// repeatFor is for how long a call is repeated after its first failure: longer than a service
	// takes to be replaced.
	repeatFor = 10 * time.Second

	// attemptMax is how long an attempt may take, besides what it asks to wait for, and what large
	// messages take. A network that is frozen is noticed sooner.
	attemptMax = 10 * time.Second

	// answerMax is attemptMax for calls whose answers may be large.
	answerMax = attemptMax + time.Minute

	pauseFirst = 50 * time.Millisecond
	pauseMax   = 2 * time.Second
)

// repeat makes a call until the service has answered it, ctx ends, or repeatFor has passed since
// the first failure, or would have before the service wants to be asked again. All attempts have
// the same key. The call is told whether an attempt before may have taken effect.
func (c *Client) repeat(
	ctx context.Context, attempt time.Duration,
	call func(ctx context.Context, ambiguous bool) error,
) error {
	var giveUp time.Time
	ambiguous := false
	ctx = withKey(ctx)
	for pause := pauseFirst; ; pause = min(2*pause, pauseMax) {
		if err := errors.Join(ctx.Err(), c.checkOpen()); err != nil {
			return err
		}
		err := c.attempt(ctx, attempt, ambiguous, call)
		again, may := isLost(err)
		if !again || ctx.Err() != nil {
			return afterLost(ambiguous, translated(ctx, err))
		}
		ambiguous = ambiguous || may
		if giveUp.IsZero() {
			giveUp = now().Add(repeatFor)
		}
		wait := retryAfter(err) + rand.N(pause) //nolint:gosec // spreads load
		if now().Add(wait).After(giveUp) {
			return translated(ctx, err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		case <-c.closing:
		}
	}
}

// afterLost is the error of a call whose last attempt was turned away before the service looked at
// it. If an attempt before that may have taken effect, that is what the caller must know.
func afterLost(ambiguous bool, err error) error {
	away := errors.Is(err, ErrRefused) || errors.Is(err, stint.ErrSchemaVersion)
	if !ambiguous || !away {
		return err
	}
	return fmt.Errorf("%w: an attempt that may have taken effect got no answer, and the next one "+
		"failed: %s", ErrUnavailable, err.Error())
}

type keyKey struct{}

// withKey returns a context for the attempts of one call.
func withKey(ctx context.Context) context.Context {
	return context.WithValue(ctx, keyKey{}, uuid.New().String())
}

type repeatedKey struct{}

// asRepeated returns a context for an attempt before which another one may have taken effect.
func asRepeated(ctx context.Context) context.Context {
	return context.WithValue(ctx, repeatedKey{}, true)
}

// keyed says with each attempt of a call which call it is, if that changes something, and whether
// it is repeated.
type keyed struct{}

// WrapUnary adds the headers to calls.
func (keyed) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		key, ok := ctx.Value(keyKey{}).(string)
		if ok && request.Spec().IdempotencyLevel != connect.IdempotencyNoSideEffects {
			request.Header().Set(wire.KeyHeader, key)
		}
		request.Header().Set(
			wire.RepeatedHeader, strconv.FormatBool(ctx.Value(repeatedKey{}) != nil))
		return next(ctx, request)
	}
}

// WrapStreamingClient adds nothing: streams are not repeated.
func (keyed) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler is for services.
func (keyed) WrapStreamingHandler(
	next connect.StreamingHandlerFunc,
) connect.StreamingHandlerFunc {
	return next
}

// timeFor is how long an attempt with this request may take: a second more for each MiB.
func timeFor(request proto.Message) time.Duration {
	const mib = 20
	return attemptMax + time.Duration(proto.Size(request)>>mib)*time.Second
}

// retryAfter is how long the service says to wait before a call is made again.
func retryAfter(err error) time.Duration {
	var failed *connect.Error
	if !errors.As(err, &failed) {
		return 0
	}
	seconds, err := strconv.ParseUint(failed.Meta().Get("Retry-After"), 10, 31)
	if err != nil { // there is none, or it is a date
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// once makes a call that must not be repeated.
func (c *Client) once(
	ctx context.Context, attempt time.Duration,
	call func(ctx context.Context, ambiguous bool) error,
) error {
	if err := errors.Join(ctx.Err(), c.checkOpen()); err != nil {
		return err
	}
	return translated(ctx, c.attempt(ctx, attempt, false, call))
}

// attempt makes a call once. If the deadline of ctx passes meanwhile, ctx has ended when it
// returns: the service, which is told the deadline, may notice that a moment earlier.
func (c *Client) attempt(
	ctx context.Context, limit time.Duration, ambiguous bool,
	call func(ctx context.Context, ambiguous bool) error,
) error {
	attempting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if ambiguous {
		attempting = asRepeated(attempting)
	}
	err := call(attempting, ambiguous)
	ends, _ := attempting.Deadline()
	callers, limited := ctx.Deadline()
	if connect.CodeOf(err) == connect.CodeDeadlineExceeded && limited && ends.Equal(callers) {
		<-ctx.Done()
	}
	return err
}

// isLost reports whether a call is to be repeated, and whether it may have taken effect.
func isLost(err error) (again, mayHaveRun bool) {
	var failed *connect.Error
	if errors.Is(err, errToken) || !errors.As(err, &failed) { // or the answer is what is wrong
		return false, false
	}
	if wire.DetailOf(err).GetKind() == wire.Limited {
		return true, false
	}
	if connect.IsWireError(err) {
		switch failed.Code() {
		case connect.CodeUnavailable, // its database may have been lost in the middle
			connect.CodeDeadlineExceeded, connect.CodeCanceled: // of the attempt, noticed there
			return true, true
		case connect.CodeInternal, connect.CodeUnknown: // it failed, who knows where
			return false, true
		default:
			return false, false
		}
	}
	var unsent *net.OpError
	switch failed.Code() {
	case connect.CodeResourceExhausted, // the answer is too large
		connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeUnimplemented:
		return false, false // by something in front of the service, or in place of it
	case connect.CodeInternal:
		again = !errors.Is(err, proto.Error) // or else the request cannot be written
		return again, again
	default:
		return true, !errors.As(err, &unsent) || unsent.Op != "dial"
	}
}

// translated returns the error of a call as the store would.
func translated(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if again, _ := isLost(err); again {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var answer *connect.Error
	if isRefused(err) && errors.As(err, &answer) {
		why, _ := strings.CutPrefix(answer.Message(), ErrRefused.Error()+": ")
		return fmt.Errorf("%w: %s", ErrRefused, why)
	}
	if known := wire.ToError(wire.DetailOf(err)); known != nil {
		if errors.Is(known, stint.ErrSchemaVersion) && errors.As(err, &answer) {
			// Its text says what to do: what to migrate, or which processes to replace.
			if _, why, found := strings.Cut(answer.Message(), known.Error()+": "); found {
				return fmt.Errorf("%w: %s", known, why)
			}
		}
		return known
	}
	switch {
	case connect.CodeOf(err) == connect.CodeResourceExhausted: // for either side to read
		return fmt.Errorf("%w: make the call with fewer tasks: %w", stint.ErrTooLarge, err)
	case errors.Is(err, proto.Error):
		return fmt.Errorf("%w: all text must be UTF-8: %w", stint.ErrInvalidArgument, err)
	default:
		return err
	}
}

// isRefused reports whether the service does not let the caller do something, or does not know the
// caller.
func isRefused(err error) bool {
	code := connect.CodeOf(err)
	return code == connect.CodePermissionDenied || code == connect.CodeUnauthenticated
}

// now is the time of this process, for pauses between attempts.
func now() time.Time { return time.Now() } //nolint:forbidigo // as the comment says
