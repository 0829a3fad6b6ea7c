package command

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/service/access"
	"github.com/stint-tasks/stint/ui"
)

// uiPath is where a service has the pages.
const uiPath = "/ui"

// isUIPath reports whether a path is that of a page.
func isUIPath(path string) bool {
	return path == uiPath || strings.HasPrefix(path, uiPath+"/")
}

// A servedUI shows the store of a service. Where the service asks who calls, each principal sees
// what the verbs of the service tell him: his pages are those of a client of the service.
type servedUI struct {
	of      *service.Service
	options ui.Options
	logger  *slog.Logger

	mutex sync.Mutex
	// known are the pages of principals: of the one who asked last, the last.
	known []*principalUI
}

// principalUI are the pages of a principal, as long as the grants are the same.
type principalUI struct {
	name   string
	grants []access.Grant
	pages  http.Handler
}

// principalsMax is of how many principals the pages are kept, with what they have asked for lately.
const principalsMax = 100

// newServedUI returns a handler of pages. Asks says that the service asks who calls.
func newServedUI(
	of *service.Service, db *database, asks bool, logger *slog.Logger,
) http.Handler {
	options := ui.Options{
		Title: "Stint, " + db.name(), Clock: db.now, Logger: logger, CommandFlags: serverFlags,
	}
	if !asks {
		options.Check = func(ctx context.Context) ([]ui.Finding, error) {
			return findingsFor(db.check(ctx))
		}
		return http.StripPrefix(uiPath, ui.New(db.direct, options))
	}
	served := http.StripPrefix(uiPath, &servedUI{of: of, options: options, logger: logger})
	return asBasic(of.Guard(access.Read, served))
}

// serverFlags name the service to a command as the browser has reached it.
func serverFlags(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	return "--server " + display.Word(scheme+"://"+r.Host)
}

// asBasic lets a browser give a token as the password of any user, the only way in which a browser
// asks for one.
func asBasic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, token, ok := r.BasicAuth(); ok {
			r = r.Clone(r.Context())
			r.Header.Set("Authorization", "Bearer "+token)
		}
		next.ServeHTTP(&basicWriter{w}, r)
	})
}

// A basicWriter has browsers ask for a user and a password where they are to say who they are.
type basicWriter struct{ http.ResponseWriter }

// WriteHeader adds what browsers understand.
func (w *basicWriter) WriteHeader(code int) {
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="Stint: the password is the token", `+
			`charset="UTF-8"`)
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap is for [http.ResponseController].
func (w *basicWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// ServeHTTP passes a request on to the pages of its principal.
func (u *servedUI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pages, err := u.pagesOf(service.Principal(r.Context()))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	done, err := service.Await(r.Context()) // or a page would keep its own calls waiting
	if err != nil {
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	}
	defer done()
	pages.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, r)))
}

// pagesOf returns the pages of a principal. What one has been told is never shown to another, nor
// to the same one once the grants are others: what pages keep, they kept for those.
func (u *servedUI) pagesOf(by *access.Principal) (http.Handler, error) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	name := by.Name
	i := slices.IndexFunc(u.known, func(p *principalUI) bool { return p.name == name })
	if i >= 0 {
		of := u.known[i]
		u.known = slices.Delete(u.known, i, i+1)
		if reflect.DeepEqual(of.grants, by.Grants) {
			u.known = append(u.known, of)
			return of.pages, nil
		}
	}
	// Nothing runs in the background of a client that no actor uses, so nothing is to be closed.
	asked, err := client.New("http://localhost", client.Options{
		HTTPClient: &http.Client{Transport: inProcess{u.of}}, Logger: u.logger,
	})
	if err != nil {
		return nil, err
	}
	options := u.options
	options.Authorize = func(r *http.Request, verb ui.Verb) bool {
		by := service.Principal(r.Context())
		if verb == ui.Check { // which tells of all tasks
			return by.MayAll(access.Read)
		}
		needed, ok := granted()[verb]
		return ok && by.Has(needed)
	}
	options.User = func(*http.Request) string { return name }
	of := &principalUI{name, by.Grants, ui.New(asked, options)}
	if len(u.known) == principalsMax {
		u.known = slices.Delete(u.known, 0, 1)
	}
	u.known = append(u.known, of)
	return of.pages, nil
}

// granted are the verbs of grants without which a page offers nothing of the kind. The service
// itself decides about each task and action.
func granted() map[ui.Verb]access.Verb {
	return map[ui.Verb]access.Verb{
		ui.Read: access.Read, ui.ReadBodies: access.ReadBodies, ui.Abort: access.Control,
		ui.Retry: access.Control, ui.Delete: access.Control, ui.Change: access.Control,
		ui.Pause: access.Control,
		ui.Limit: access.Control, ui.Trigger: access.Insert, ui.Insert: access.Insert,
		ui.Schedule: access.Insert, ui.Answer: access.Answer,
	}
}
