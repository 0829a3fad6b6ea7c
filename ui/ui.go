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
// they wait, to insert tasks and copies, to pause and resume, to set limits, to add, edit, trigger
// and delete schedules, and to answer tasks. Before each change a page says what it would do, asked
// of the database; then only those tasks are changed that still are as they were seen. No request
// but those of forms changes anything, and none that comes from another site.
//
// However many people look, the store is asked for each kind of overview once a second at most, and
// less often if it takes long to answer. A page that nobody sees asks for nothing.
package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/safely"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/graphs"
	"github.com/stint-tasks/stint/ui/internal/kept"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/verbs"
)

var _ Store = (*stint.Store)(nil)

const timeoutDefault = 5 * time.Second

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
		options: options, pages: map[string]page{},
		asked: ask.New(store, ask.Options{
			Clock: options.Clock, Check: options.Check, Timeout: options.Timeout,
		}),
		changes: safely.LoggerOr(changes), changing: make(chan struct{}, changesMax),
		previewing: make(chan struct{}, changesMax),
		places:     kept.Answers[*graphs.Places]{Most: placesMax, Timeout: options.Timeout},
		shards:     shardPages{known: map[string]*Handler{}},
	}
	for _, p := range allPages() {
		if h.has(p.name) {
			h.pages[p.name] = p
			if p.title != "" {
				h.navigation = append(h.navigation, p)
			}
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
		{name: "", title: "Overview", needs: Read, serve: shown(overviewPage)},
		{name: "problems", title: "Problems", needs: Read, serve: shown(problemsPage)},
		{name: "tasks", title: "Tasks", needs: Read, serve: shown(tasksPage)},
		{name: "waiting", title: "Answers", needs: Read, serve: shown(waitingPage)},
		{name: "actions", title: "Actions", needs: Read, serve: shown(actionsPage)},
		{name: "actors", title: "Actors", needs: Read, serve: shown(actorsPage)},
		{name: "limits", title: "Limits", needs: Read, serve: shown(limitsPage)},
		{name: "schedules", title: "Schedules", needs: Read, serve: shown(schedulesPage)},
		{name: "changes", title: "Changes", needs: Read, serve: shown(changesPage)},
		{name: "shards", title: "Shards", needs: Read, serve: shown(shardsPage)},
		{name: "check", title: "Check", needs: Check, serve: shown(checkPage)},
		{name: "task", needs: Read, serve: shown(taskPage)},
		{name: "action", needs: Read, serve: shown(actionPage)},
		{name: "alike", needs: Read, serve: shown(alikePage)},
		{name: "network", needs: Read, serve: shown(networkPage)},
		{name: "layout", needs: Read, serve: serveLayout},
		{name: "value", needs: ReadBodies, serve: serveValue},
		{name: "preview", needs: Read, post: true, serve: servePreview},
		{name: "change", needs: Read, post: true, serve: serveChange},
		{name: "changed", needs: Read, serve: shown(changedPage)},
		{name: "begin-check", needs: Check, post: true, free: true, serve: serveBeginCheck},
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
		return h.asked.ShardCounts != nil
	case "changes":
		_, ok := h.asked.Reader.(verbs.Auditor)
		return ok && h.asked.ShardCounts == nil // each shard has a list of its own
	}
	return true
}

// ServeHTTP answers a request for a page.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.served.ServeHTTP(w, r) }

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
		err = refuse.ErrNotAllowed
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

// shardIn is the shard in whose folder a path is; empty if it is in none.
func (h *Handler) shardIn(path string) string {
	if _, ok := h.asked.Reader.(ask.Sharder); !ok {
		return ""
	}
	folder := path[:strings.LastIndexByte(path, '/')+1]
	parts := strings.Split(strings.TrimSuffix(folder, "/"), "/")
	if n := len(parts); n >= 2 && parts[n-2] == ask.ShardsFolder {
		return parts[n-1]
	}
	return ""
}

// serveShard answers a request for a page of a shard.
func (h *Handler) serveShard(w http.ResponseWriter, r *http.Request, shard string) {
	ctx, cancel := context.WithTimeout(r.Context(), h.options.Timeout)
	asked := &request{Request: r.WithContext(ctx), may: func(verb Verb) bool {
		return h.options.Authorize(r, verb)
	}}
	asked.page = h.pages["shards"] // to which it belongs
	asked.now, asked.up = h.asked.Clock.Now(ctx), upFromShard
	if !asked.may(Read) {
		defer cancel()
		h.serveError(w, asked, refuse.ErrForbidden)
		return
	}
	pages, err := h.pagesOf(ctx, shard)
	if err != nil {
		defer cancel()
		h.serveError(w, asked, err)
		return
	}
	cancel()
	pages.serve(w, r)
}

// upFromShard leads from the folder of a shard to that of all.
const upFromShard = "../../"

// pagesOf returns the pages of a shard. Its database is reached when they are first asked for.
func (h *Handler) pagesOf(ctx context.Context, shard string) (*Handler, error) {
	sharded, ok := h.asked.Reader.(ask.Sharder)
	if !ok {
		return nil, refuse.ErrNoShard
	}
	store, err := sharded.ShardStore(ctx, shard)
	switch {
	case errors.Is(err, views.ErrUnknown), errors.Is(err, stint.ErrInvalidArgument):
		return nil, refuse.ErrNoShard
	case err != nil:
		h.options.Logger.LogAttrs(ctx, slog.LevelWarn, "a shard of the web interface is away",
			slog.String("shard", shard), slog.Any("error", err))
		return nil, &refuse.PageError{
			Code: http.StatusBadGateway, Heading: "Away",
			Sentence: "The shard " + display.Text(shard) + " does not answer: " +
				whyAway(err) + ".",
		}
	}
	shown, ok := store.(Store)
	if !ok {
		return nil, refuse.ErrNoShard
	}
	h.shards.mutex.Lock()
	defer h.shards.mutex.Unlock()
	if known := h.shards.known[shard]; known != nil { // a cluster keeps a store that it has opened
		return known, nil
	}
	options := h.options
	options.Title += ", " + shard
	options.Clock, options.Missing, options.Check = nil, nil, nil
	pages := New(shown, options)
	pages.changes, pages.up, pages.all, pages.shard = h.changes, upFromShard, h, shard
	pages.asked.Change = h.changeOn(shard)
	h.shards.known[shard] = pages
	return pages, nil
}
