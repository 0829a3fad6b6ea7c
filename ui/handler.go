package ui

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/graphs"
	"github.com/stint-tasks/stint/ui/internal/kept"
)

// A Handler serves the pages.
type Handler struct {
	options Options
	changes *slog.Logger
	asked   *ask.Store
	pages   map[string]page
	served  http.Handler

	navigation []page // those of the pages that it leads to, in its order

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

// Name and Heading are for the navigation.
func (p page) Name() string {
	if p.name == "" {
		return "./"
	}
	return p.name
}

// Heading is what the navigation calls the page.
func (p page) Heading() string { return p.title }

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

// A view is what a page shows.
type view struct {
	name  string // of the template
	title string // empty: that of the navigation
	data  any
	still bool // it does not change, or not often: there is no need to look again
}

// shardPages are the pages of shards by their names.
type shardPages struct {
	mutex sync.Mutex
	known map[string]*Handler
}

// ofShards reports whether the pages are those of shards: all, or one of several.
func (h *Handler) ofShards() bool { return h.asked.ShardCounts != nil || h.up != "" }

// forget has stores asked anew, after a change: all that may show it.
func (h *Handler) forget() {
	if h.all != nil {
		h.all.forget()
		return
	}
	h.asked.Forget()
	h.shards.mutex.Lock()
	defer h.shards.mutex.Unlock()
	for _, pages := range h.shards.known {
		pages.asked.Forget()
	}
}
