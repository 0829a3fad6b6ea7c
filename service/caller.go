package service

import (
	"context"
	"net/http"

	"github.com/stint-tasks/stint/service/access"
)

// A caller is whoever has sent a request, with what the request takes of the caller's limits.
type caller struct {
	principal *access.Principal // nil if the service asks nobody who he is
	*place
	room *room // for its messages
	// control is that of the connection.
	control *http.ResponseController
	// again finds out who the caller is by now, for streams; nil if nobody is asked.
	again func() (*access.Principal, error)
}

type callerKey struct{}

// callerOf returns the caller of a request.
func callerOf(ctx context.Context) caller {
	of, _ := ctx.Value(callerKey{}).(caller)
	return of
}

func (c caller) name() string {
	if c.principal == nil {
		return ""
	}
	return c.principal.Name
}

// Principal returns who has sent a request that [Options.Authenticate] has let pass; nil if the
// service asks nobody.
func Principal(ctx context.Context) *access.Principal { return callerOf(ctx).principal }

// Await says that a request, which a service has let pass, only waits until done is called: for
// calls of this service that it makes itself, each of which counts for its caller's limits. It
// fails if too many of the caller's requests wait.
func Await(ctx context.Context) (done func(), err error) {
	place := callerOf(ctx).place
	if place == nil {
		return func() {}, nil
	}
	return place.resume, place.wait()
}
