package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A shardRow is a shard in the list.
type shardRow struct {
	Name   string
	Link   string // of its own pages
	Tasks  string // of its tasks
	Away   bool
	Why    string // it does not answer
	States []show.Tally
	All    int64
	Oldest time.Duration
	Paused int // actions
}

type shardsData struct {
	Shards []shardRow
	Away   int
}

// shardsPage lists shards.
func shardsPage(h *Handler, r *request) (view, error) {
	found, err := h.asked.Shards.Get(r.Context())
	if err != nil {
		return view{}, err
	}
	var data shardsData
	for i := range found {
		row := newShardRow(&found[i])
		if row.Away {
			data.Away++
		}
		data.Shards = append(data.Shards, row)
	}
	return view{name: "shards", data: data}, nil
}

func newShardRow(s *views.Stats) shardRow {
	row := shardRow{
		Name: s.Shard, Link: ask.ShardFolder(s.Shard),
		Tasks: show.Link("tasks", "prefix", s.Shard+"/"),
	}
	if s.Err != nil {
		row.Away, row.Why = true, whyAway(s.Err)
		return row
	}
	row.States = show.Tallies(s.Stats)
	for i := range row.States {
		state := &row.States[i]
		row.All += state.Tasks
		state.Link = show.Link("tasks", "state", string(state.State), "prefix", s.Shard+"/")
	}
	for i := range s.Actions {
		row.Oldest = max(row.Oldest, s.Actions[i].OldestReady)
		if s.Actions[i].Paused {
			row.Paused++
		}
	}
	return row
}

// whyAway says why a shard does not answer, without what only its log should say, such as where its
// database is.
func whyAway(err error) string {
	switch {
	case errors.Is(err, views.ErrWrong):
		return "its database is that of another shard"
	case errors.Is(err, stint.ErrRefused):
		return "it lets these pages see nothing"
	case errors.Is(err, views.ErrNoAnswer), errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return "it cannot be reached"
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

// shardPages are the pages of shards by their names.
type shardPages struct {
	mutex sync.Mutex
	known map[string]*Handler
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

// changeOn is how tasks of a shard are changed: with what that means on other shards.
func (h *Handler) changeOn(shard string) bulk.SeenChange {
	if h.asked.Change == nil {
		return nil
	}
	prefix := stint.TaskID(shard + "/")
	return func(
		ctx context.Context, states []stint.State, tasks []bulk.Task, dryRun bool,
		change bulk.Change,
	) (stint.Affected, error) {
		tasks = slices.Clone(tasks)
		for i := range tasks {
			tasks[i].ID = prefix + tasks[i].ID
		}
		affected, err := h.asked.Change(ctx, states, tasks, dryRun, change)
		affected.Tasks = withoutPrefix(affected.Tasks, prefix)
		var named *stint.TaskError
		if errors.As(err, &named) {
			err = &stint.TaskError{IDs: withoutPrefix(named.IDs, prefix), Err: named.Err}
		}
		return affected, err
	}
}

func withoutPrefix(ids []stint.TaskID, prefix stint.TaskID) []stint.TaskID {
	ids = slices.Clone(ids)
	for i := range ids {
		ids[i] = stint.TaskID(strings.TrimPrefix(string(ids[i]), string(prefix)))
	}
	return ids
}

// ofShards reports whether the pages are those of shards: all, or one of several.
func (h *Handler) ofShards() bool { return h.asked.Shards != nil || h.up != "" }

// answersFrom says who answers tasks that nobody is given.
func (h *Handler) answersFrom() string {
	if h.ofShards() { // on each, others stand for the tasks of other shards
		return "from outside, or from other shards"
	}
	return "from outside"
}
