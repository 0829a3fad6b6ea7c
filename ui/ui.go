// Package ui is the web interface: pages that show tasks, their networks, and who performs them,
// and that say why a task does not run.
//
//	http.Handle("/stint/", ui.New(store, ui.Options{}))
//
// The handler may be mounted anywhere, with or without [http.StripPrefix], and behind a proxy that
// changes the path: all pages are in one folder, and name each other without it. It needs no
// cookies, no build and no network but the handler's own, and its Content-Security-Policy has no
// exceptions. Pages work without JavaScript; with it, they keep themselves up to date.
//
// Whoever can reach the handler may look at all tasks, bodies included, and change nothing, unless
// [Options.Authorize] says otherwise. So mount it behind what tells users of the service apart.
//
// To those who may, pages offer to abort, retry and delete tasks, to start them now or change how
// they wait, to pause and resume, to set limits, to trigger schedules, and to answer tasks. Before
// each change a page says what it would do, asked of the database; then only those tasks are
// changed that still are as they were seen. No request but those of forms changes anything, and
// none that comes from another site.
//
// However many people look, the store is asked for each kind of overview once a second at most, and
// less often if it takes long to answer. A page that nobody sees asks for nothing.
package ui

import (
	"context"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/safely"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/graphs"
	"github.com/stint-tasks/stint/ui/internal/kept"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/verbs"
)

// A Store has the verbs that the pages ask by: a [*stint.Store], a client of package client, or all
// shards of a cluster: Merged of package shards. The pages of limits, schedules, changes and checks
// are there if it is also a [verbs.Limiter], a [verbs.Scheduler], a [verbs.Auditor], or has Check,
// as the first two have, and changes are offered whose verbs it has. Of shards, each has pages of
// its own besides.
type Store interface{ verbs.Reader }

var _ Store = (*stint.Store)(nil)

// A Verb is something that a page does for whoever asks for it.
type Verb string

// The verbs.
const (
	// Read looks at everything but bodies, results and the answers of steps.
	Read Verb = "read"
	// ReadBodies looks at bodies and results.
	ReadBodies Verb = "read-bodies"
	// Check has the store checked, which reads all tables, and looks at what was found.
	Check Verb = "check"
	// Abort, Retry and Delete do that to tasks of whatever action.
	Abort  Verb = "abort"
	Retry  Verb = "retry"
	Delete Verb = "delete"
	// Change changes when tasks that wait start, their priority, key, or limit of tries.
	Change Verb = "change"
	// Pause pauses and resumes actions, keys and schedules.
	Pause Verb = "pause"
	// Limit sets the limits of actions.
	Limit Verb = "limit"
	// Trigger has schedules insert their tasks now.
	Trigger Verb = "trigger"
	// Answer says how tasks ended whose action is [stint.External].
	Answer Verb = "answer"
)

// Changes reports whether a verb changes anything.
func (v Verb) Changes() bool { return v != Read && v != ReadBodies && v != Check }

// Options are what a handler does otherwise than by default.
type Options struct {
	// Title names the store, such as "Shop, staging", at the top of each page. Default: "Stint".
	Title string

	// Authorize says whether whoever sent a request may have a page do something for him. It is
	// called for each request, before the store is asked, and for each of the changes that a page
	// may offer. Default: everybody may do everything that changes nothing ([Verb.Changes]).
	Authorize func(r *http.Request, verb Verb) bool

	// User names whoever sent a request, such as "ann@example.com". The name is noted with each
	// change ([stint.WithAuthor]) and logged, is in the status of tasks that he aborts, and is the
	// actor of his answers. Default: nobody is named.
	User func(r *http.Request) string

	// Format makes the body or the result of a task readable, such as a message of Protocol Buffers
	// or something encrypted: it returns text or JSON. It is called with values of up to 64 KiB, by
	// several goroutines at once; what it returns is cut at 64 KiB. Default: values are shown as
	// they are.
	Format func(task stint.TaskInfo, value []byte) []byte

	// Clock returns the time of the database, which all times of tasks are of. It is called once a
	// minute at most, unless it fails. Default: the clock of this process, until the page of a task
	// has told how much later it is at the database.
	Clock func(ctx context.Context) (time.Time, error)

	// Missing names what the store does not tell of at the moment, such as a shard that is away,
	// for people to read. It is asked for each page, and should return at once. Default: the shards
	// that are away, and otherwise nothing.
	Missing func() []string

	// Check looks for what is wrong with the store, when somebody asks for it. Default: the verb
	// Check of the store; without it, there is no page for that.
	Check func(ctx context.Context) ([]Finding, error)

	// CommandFlags returns what is added to the commands on the page that answers a request, so
	// that these work as they are copied, such as "--schema=tasks". Default: nothing.
	CommandFlags func(r *http.Request) string

	// Timeout is how long the store may take to answer for a page. Default: 5 s.
	Timeout time.Duration

	// Logger logs why the store did not answer; a page only says that it did not. At the level of
	// Info it logs each change: what, by whom and why, and how many tasks. Default: [slog.Default]
	// as of [New], for changes, warnings and errors.
	Logger *slog.Logger
}

const timeoutDefault = 5 * time.Second

// A Handler serves the pages.
type Handler struct {
	options Options
	changes *slog.Logger
	asked   *ask.Store
	pages   map[string]page
	served  http.Handler

	templates commandPages
	places    kept.Answers[*graphs.Places]

	shards shardPages
	all    *Handler // the pages of all shards, if these are those of one of them
	up     string   // leads there; otherwise empty
	shard  string   // that one

	changing   chan struct{} // has room for those that are under way
	previewing chan struct{} // and for what they would do: no change waits for a look
	triggering sync.Mutex
}

// A page is one of the handler's.
type page struct {
	name  string
	title string // in the navigation, where it is empty for pages that are not in it
	needs Verb
	post  bool // it is for forms that are sent, and for nothing else
	free  bool // its form changes nothing

	// serve answers a request.
	serve func(h *Handler, w http.ResponseWriter, r *request) error
}

// New returns a handler of pages that show a store. It begins nothing in the background, so there
// is nothing to close.
func New(store Store, options Options) *Handler {
	if options.Title == "" {
		options.Title = "Stint"
	}
	if options.Timeout == 0 {
		options.Timeout = timeoutDefault
	}
	if options.Authorize == nil {
		options.Authorize = func(_ *http.Request, verb Verb) bool { return !verb.Changes() }
	}
	if options.CommandFlags == nil {
		options.CommandFlags = func(*http.Request) string { return "" }
	}
	if options.Missing == nil {
		options.Missing = ask.MissingOf(store)
	}
	changes := options.Logger
	if changes == nil {
		changes = slog.Default()
	}
	options.Logger = safely.LoggerOr(options.Logger)
	h := &Handler{
		options: options, asked: ask.New(store, ask.Options{
			Clock: options.Clock, Check: options.Check, Timeout: options.Timeout,
		}), pages: map[string]page{},
		changes: safely.LoggerOr(changes), changing: make(chan struct{}, changesMax),
		previewing: make(chan struct{}, changesMax),
		places:     kept.Answers[*graphs.Places]{Most: placesMax, Timeout: options.Timeout},
		shards:     shardPages{known: map[string]*Handler{}},
	}
	for _, p := range allPages() {
		if h.has(p.name) {
			h.pages[p.name] = p
		}
	}
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(h.serveOtherSite))
	h.served = protection.Handler(http.HandlerFunc(h.serve))
	return h
}

// allPages are the pages, those of the navigation in its order.
func allPages() []page {
	return []page{
		{name: "", title: "Overview", needs: Read, serve: shown(overview)},
		{name: "problems", title: "Problems", needs: Read, serve: shown(problems)},
		{name: "tasks", title: "Tasks", needs: Read, serve: shown(tasks)},
		{name: "waiting", title: "Answers", needs: Read, serve: shown(waiting)},
		{name: "actions", title: "Actions", needs: Read, serve: shown(actions)},
		{name: "actors", title: "Actors", needs: Read, serve: shown(actors)},
		{name: "limits", title: "Limits", needs: Read, serve: shown(limits)},
		{name: "schedules", title: "Schedules", needs: Read, serve: shown(schedules)},
		{name: "changes", title: "Changes", needs: Read, serve: shown(listChanges)},
		{name: "shards", title: "Shards", needs: Read, serve: shown(shardsPage)},
		{name: "check", title: "Check", needs: Check, serve: shown(check)},
		{name: "task", needs: Read, serve: shown(task)},
		{name: "action", needs: Read, serve: shown(action)},
		{name: "alike", needs: Read, serve: shown(errorsAlike)},
		{name: "network", needs: Read, serve: shown(network)},
		{name: "layout", needs: Read, serve: boxPlaces},
		{name: "value", needs: ReadBodies, serve: value},
		{name: "preview", needs: Read, post: true, serve: preview},
		{name: "change", needs: Read, post: true, serve: change},
		{name: "changed", needs: Read, serve: shown(changed)},
		{name: "begin-check", needs: Check, post: true, free: true, serve: beginCheck},
	}
}

// has reports whether the store has the verbs of a page.
func (h *Handler) has(page string) bool {
	switch page {
	case "limits":
		return h.asked.Limits != nil
	case "schedules":
		return h.asked.Schedules != nil
	case "check", "begin-check":
		return h.asked.Checks.Ask != nil
	case "shards":
		return h.asked.Shards != nil
	case "changes":
		_, ok := h.asked.Reader.(verbs.Auditor)
		return ok && h.asked.Shards == nil // each shard has a list of its own
	}
	return true
}

// ServeHTTP answers a request for a page.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.served.ServeHTTP(w, r) }

// A request is one for a page.
type request struct {
	*http.Request
	page page
	may  func(Verb) bool
	now  time.Time // on the database's clock
	up   string    // leads to the folder of the pages, if they are named from another one
	// partly says that the store may leave out what whoever asks may not see, without a word.
	partly bool
}

const queryBytesMax = 16 << 10

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	name := path.Base("/" + r.URL.Path)
	switch {
	case r.URL.Path == "" && mountedAt(r) != "": // links would lead out of the folder
		w.Header().Set("Location", "./"+mountedAt(r)+"/")
		w.WriteHeader(http.StatusMovedPermanently)
		return
	case strings.HasSuffix(r.URL.Path, "/") || r.URL.Path == "":
		name = ""
	case serveAsset(w, r, name):
		return
	}
	if shard := h.shardIn(r.URL.Path); shard != "" {
		h.serveShard(w, r, shard)
		return
	}
	h.servePage(w, r, name)
}

// servePage answers a request for the page of a name.
func (h *Handler) servePage(w http.ResponseWriter, r *http.Request, name string) {
	known := map[Verb]bool{} // a page may ask about each of its rows
	asked := &request{Request: r, may: func(verb Verb) bool {
		may, ok := known[verb]
		if !ok {
			may = h.options.Authorize(r, verb)
			known[verb] = may
		}
		return may
	}}
	found, ok := h.pages[name]
	timeout := h.options.Timeout
	if found.post {
		timeout = max(timeout, changeTimeout)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	asked.Request = r.WithContext(ctx)
	asked.now = h.asked.Clock.Now(ctx)
	var err error
	switch {
	case !asked.may(Read):
		err = refuse.ErrForbidden
	case !ok:
		err = refuse.ErrNoPage
	case found.post && !found.free && !mayChange(asked):
		err = refuse.ErrForbidden
	case found.post && r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST")
		err = refuse.ErrOnlyForm
	case !found.post && r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		err = refuse.ErrMethod
	case len(r.URL.RawQuery) > queryBytesMax:
		err = refuse.ErrLongQuery
	case !filters.IsText(r.URL.Query()):
		err = refuse.ErrNotText
	case !asked.may(found.needs):
		err = refuse.ErrForbidden
	default:
		asked.page, asked.partly = found, h.asked.Partly(ctx)
		err = found.serve(h, w, asked)
	}
	if err != nil {
		h.serveError(w, asked, err)
	}
}

// serveOtherSite answers a form that another site has sent.
func (h *Handler) serveOtherSite(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	asked := &request{Request: r, may: func(Verb) bool { return false }}
	asked.now = h.asked.Clock.Now(r.Context())
	h.serveError(w, asked, refuse.ErrOtherSite)
}

// mountedAt is the last part of the path that a browser asked for; empty if it ends with a slash.
func mountedAt(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	return path[strings.LastIndexByte(path, '/')+1:]
}

// secure sets the headers that keep what tasks hold from doing anything in a browser.
func secure(header http.Header) {
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; "+
		"style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "+
		"frame-ancestors 'none'; base-uri 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}
