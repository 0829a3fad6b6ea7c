package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/wire"
)

const (
	// repeatFor is for how long a call is repeated after its first failure: longer than a service
	// takes to be replaced.
	repeatFor = 10 * time.Second

	// attemptMax is how long an attempt may take, besides what it asks to wait for.
	attemptMax = 10 * time.Second

	pauseFirst = 50 * time.Millisecond
	pauseMax   = 2 * time.Second
)

// repeat makes a call until the service has answered it, ctx ends, or repeatFor has passed since
// the first failure. The call is told whether an attempt before may have taken effect.
func (c *Client) repeat(
	ctx context.Context, attempt time.Duration,
	call func(ctx context.Context, ambiguous bool) error,
) error {
	var giveUp time.Time
	ambiguous := false
	for pause := pauseFirst; ; pause = min(2*pause, pauseMax) {
		if err := errors.Join(ctx.Err(), c.checkOpen()); err != nil {
			return err
		}
		attempting, cancel := context.WithTimeout(ctx, attempt)
		err := call(attempting, ambiguous)
		cancel()
		again, may := isLost(err)
		ambiguous = ambiguous || may
		switch {
		case !again || ctx.Err() != nil:
			return translated(ctx, err)
		case giveUp.IsZero():
			giveUp = now().Add(repeatFor)
		case now().After(giveUp):
			return translated(ctx, err)
		}
		select {
		case <-time.After(rand.N(pause)): //nolint:gosec // spreads load
		case <-ctx.Done():
		case <-c.closing:
		}
	}
}

// once makes a call that must not be repeated.
func (c *Client) once(
	ctx context.Context, attempt time.Duration,
	call func(ctx context.Context, ambiguous bool) error,
) error {
	if err := errors.Join(ctx.Err(), c.checkOpen()); err != nil {
		return err
	}
	attempting, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	return translated(ctx, call(attempting, false))
}

// isLost reports whether a call is to be repeated, and whether it may have taken effect.
func isLost(err error) (again, mayHaveRun bool) {
	switch {
	case err == nil:
		return false, false
	case !connect.IsWireError(err): // the service has not answered
		return true, true
	}
	if wire.DetailOf(err).GetKind() == wire.Limited {
		return true, false
	}
	unavailable := connect.CodeOf(err) == connect.CodeUnavailable
	return unavailable, unavailable // its database may have been lost in the middle
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
		return fmt.Errorf("%w%s", ErrRefused,
			strings.TrimPrefix(answer.Message(), ErrRefused.Error()))
	}
	if known := wire.ToError(wire.DetailOf(err)); known != nil {
		return known
	}
	switch connect.CodeOf(err) {
	case connect.CodeResourceExhausted: // what the service reads of a message is limited
		return fmt.Errorf("%w: make the call with fewer tasks: %w", stint.ErrTooLarge, err)
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
