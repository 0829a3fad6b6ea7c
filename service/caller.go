package service

import (
	"context"
	"net/http"

	"connectrpc.com/connect"

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

// admitted returns a handler that finds out who has sent a request, and passes it on within the
// caller's limits.
func (s *Service) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by := caller{control: http.NewResponseController(w)}
		if s.authenticate != nil {
			principal, err := s.authenticate(r)
			if err != nil || principal == nil {
				w.Header().Set("WWW-Authenticate", "Bearer")
				s.refuse(w, r, errUnknown(err))
				return
			}
			by.principal = principal
			by.again = func() (*access.Principal, error) { return s.authenticate(r) }
			callOf(r.Context()).principal = principal.Name
		}
		entered, wait := s.limits.enter(by.name())
		if entered == nil {
			refusal := errLimited("has made too many calls")
			refusal.Meta().Set("Retry-After", seconds(wait))
			s.refuse(w, r, refusal)
			return
		}
		defer entered.leave()
		by.place, by.room = entered, &room{budget: s.budget, name: by.name()}
		ctx := authored(r.Context(), r.Header, by.name())
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, callerKey{}, by)))
	})
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

// refuse answers a request that no verb sees.
func (s *Service) refuse(w http.ResponseWriter, r *http.Request, err error) {
	callOf(r.Context()).code = codeOf(err)
	if !s.refusals.IsSupported(r) {
		http.Error(w, err.Error(), httpStatus(err))
		return
	}
	if err := s.refusals.Write(w, r, err); err != nil {
		s.log(r.Context(), r.URL.Path, err)
	}
}

// httpStatus is the status for those who do not speak the protocol of the service.
func httpStatus(err error) int {
	switch connect.CodeOf(err) {
	case connect.CodeUnauthenticated:
		return http.StatusUnauthorized
	case connect.CodeResourceExhausted:
		return http.StatusTooManyRequests
	case connect.CodeUnavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusBadRequest
	}
}
