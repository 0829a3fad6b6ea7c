package service

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/changes"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service/access"
)

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

// authored returns a context that names the author of changes, if the request says that they are to
// be noted: the caller, and whom he makes them for.
func authored(ctx context.Context, header http.Header, caller string) context.Context {
	said := func(name string) string {
		text := header.Get(name)
		if decoded, err := url.PathUnescape(text); err == nil {
			return decoded
		}
		return text
	}
	author := changes.Author{
		Name: said(wire.AuthorHeader), Reason: said(wire.ReasonHeader),
	}
	switch {
	case author == changes.Author{}:
		return ctx
	case caller != "" && author.Name != "" && author.Name != caller:
		author.Name = caller + " for " + author.Name
	case caller != "":
		author.Name = caller
	}
	return changes.With(ctx, author)
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

// posted refuses requests by another method than POST. Connect would take GET for procedures
// without side effects, which any page in a browser can send.
func posted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "the method must be POST", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sized refuses requests that say that they are too large: Connect would read them, and ask the
// client to try again.
func (s *Service) sized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bytesMax := s.limits.RequestBytes
		if r.ContentLength <= int64(bytesMax) || !s.refusals.IsSupported(r) {
			next.ServeHTTP(w, r)
			return
		}
		s.refuse(w, r, s.translated(r.Context(), r.URL.Path, &stint.ArgumentError{
			Argument: "request bytes", Index: -1, Err: stint.ErrTooLarge,
			Problem: fmt.Sprintf("%d exceeds the limit of %d", r.ContentLength, bytesMax),
		}))
	})
}
