package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/ui/internal/kept"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
	"github.com/stint-tasks/stint/verbs"
)

// A sharder is a store of several shards, which has the tasks of all of them: Merged of package
// shards.
type sharder interface {
	ShardStats(ctx context.Context) ([]views.Stats, error)
	ShardStore(ctx context.Context, shard string) (any, error)
	Missing(since time.Time) (shards []string)
	AsSeen(states []stint.State, seen []stint.TaskInfo, dryRun bool) verbs.Changer
}

func shardsOf(store verbs.Reader, options askOptions) *kept.Answer[[]views.Stats] {
	sharded, ok := store.(sharder)
	if !ok {
		return nil
	}
	return &kept.Answer[[]views.Stats]{Ask: sharded.ShardStats, Timeout: options.Timeout}
}

// missingOf says what a store does not tell of at the moment.
func missingOf(store verbs.Reader) func() []string {
	sharded, ok := store.(sharder)
	if !ok {
		return func() []string { return nil }
	}
	return func() (said []string) {
		const shown = 15 * time.Second // for which answers may be shown
		for _, shard := range sharded.Missing(kept.Now().Add(-shown)) {
			said = append(said, "Shard "+display.Text(shard)+
				" is away: its tasks are missing.")
		}
		return said
	}
}

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
	found, err := h.asked.shards.Get(r.Context())
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
		Name: s.Shard, Link: shardFolder(s.Shard), Tasks: show.Link("tasks", "prefix", s.Shard+"/"),
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

// shardFolder is the folder with the pages of a shard.
func shardFolder(shard string) string { return shardsFolder + "/" + url.PathEscape(shard) + "/" }

const shardsFolder = "shard"

// shardIn is the shard in whose folder a path is; empty if it is in none.
func (h *Handler) shardIn(path string) string {
	if _, ok := h.asked.Reader.(sharder); !ok {
		return ""
	}
	folder := path[:strings.LastIndexByte(path, '/')+1]
	parts := strings.Split(strings.TrimSuffix(folder, "/"), "/")
	if n := len(parts); n >= 2 && parts[n-2] == shardsFolder {
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
	asked.now, asked.up = h.asked.clock.Now(ctx), upFromShard
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
	sharded, ok := h.asked.Reader.(sharder)
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
	pages.asked.change = h.changeOn(shard)
	h.shards.known[shard] = pages
	return pages, nil
}

// forget has stores asked anew, after a change: all that may show it.
func (h *Handler) forget() {
	if h.all != nil {
		h.all.forget()
		return
	}
	h.asked.forget()
	h.shards.mutex.Lock()
	defer h.shards.mutex.Unlock()
	for _, pages := range h.shards.known {
		pages.asked.forget()
	}
}

// changeOn is how tasks of a shard are changed: with what that means on other shards.
func (h *Handler) changeOn(shard string) bulk.SeenChange {
	if h.asked.change == nil {
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
		affected, err := h.asked.change(ctx, states, tasks, dryRun, change)
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

// shardOf is the shard of a task; empty if the store has none.
func (a *asked) shardOf(id stint.TaskID) string {
	if _, ok := a.Reader.(sharder); !ok {
		return ""
	}
	shard, _, _ := strings.Cut(string(id), "/")
	return shard
}

// onShard is the address of the page of a task on its shard, and the shard; empty if the store has
// none.
func (a *asked) onShard(id stint.TaskID) (shard, address string) {
	if shard = a.shardOf(id); shard == "" {
		return "", ""
	}
	task := strings.TrimPrefix(string(id), shard+"/")
	return shard, shardFolder(shard) + show.Link("task", "id", task)
}

// shardsWith are the pages of an action on the shards that have it, and on those where it is
// paused.
func (a *asked) shardsWith(ctx context.Context, action string) (on, pausedOn []show.Part) {
	if a.shards == nil {
		return nil, nil
	}
	found, err := a.shards.Get(ctx)
	if err != nil {
		return nil, nil
	}
	for i := range found {
		there := show.Part{
			Text: display.Text(found[i].Shard),
			Link: shardFolder(found[i].Shard) + show.Link("action", "name", action),
		}
		for k := range found[i].Actions {
			if s := &found[i].Actions[k]; s.Action == action {
				on = append(on, there)
				if s.Paused {
					pausedOn = append(pausedOn, there)
				}
			}
		}
	}
	return on, pausedOn
}

// leavingOut makes a change without the tasks because of which it is refused. Each shard makes its
// part of it for itself: if one does not answer, the tasks on it are left out.
func (a *asked) leavingOut(
	ctx context.Context, tasks []bulk.Task,
	change func(ctx context.Context, tasks []bulk.Task) (stint.Affected, error),
) (affected stint.Affected, refused []bulk.Refusal, err error) {
	parts := a.byShard(tasks)
	if len(parts) <= 1 {
		return bulk.LeavingOut(ctx, a, tasks, change)
	}
	// At once, since it may depend on what another shard does.
	affected, err = change(ctx, tasks)
	if err == nil {
		return affected, nil, nil
	}
	done := map[stint.TaskID]bool{}
	for _, id := range affected.Tasks {
		done[id] = true
	}
	errs := []error{err}
	for _, tasks := range parts {
		tasks = slices.DeleteFunc(tasks, func(task bulk.Task) bool { return done[task.ID] })
		part, left, err := bulk.LeavingOut(ctx, a, tasks, change)
		refused = append(refused, left...)
		if err != nil {
			errs = append(errs, err)
			refused = append(refused, bulk.Refusal{Tasks: bulk.IDs(tasks), Err: &silentError{err}})
			continue
		}
		affected.Tasks = append(affected.Tasks, part.Tasks...)
		affected.Others += part.Others
		affected.InProgress += part.InProgress
	}
	if len(errs) > len(parts) || len(done) == len(tasks) { // no part says what kept it
		return affected, refused, errors.Join(errs...)
	}
	return affected, refused, nil
}

// byShard returns the tasks of each shard, all together if the store has none.
func (a *asked) byShard(tasks []bulk.Task) (parts [][]bulk.Task) {
	at := map[string]int{}
	for _, task := range tasks {
		shard := a.shardOf(task.ID)
		i, ok := at[shard]
		if !ok {
			i, parts = len(parts), append(parts, nil)
			at[shard] = i
		}
		parts[i] = append(parts[i], task)
	}
	return parts
}

// A silentError is why a shard did not say what became of its part of a change.
type silentError struct{ err error }

func (e *silentError) Error() string { return e.err.Error() }

// Unwrap returns that error.
func (e *silentError) Unwrap() error { return e.err }

// shardNotices says of each shard what needs attention there, the worst first.
func (h *Handler) shardNotices(
	found []views.Stats, actors []stint.ActorInfo,
) (all []notice) {
	for i := range found {
		for _, n := range notices(found[i].Stats, stint.Problems{},
			actors, h.answersFrom(), false) {
			n.What = append(show.Say(display.Text(found[i].Shard)+": "), n.What...)
			n.Key = found[i].Shard + " " + n.Key
			if n.Where != "" {
				n.Where = shardFolder(found[i].Shard) + n.Where
			}
			all = append(all, n)
		}
	}
	return worstFirst(all)
}

// ofShards reports whether the pages are those of shards: all, or one of several.
func (h *Handler) ofShards() bool { return h.asked.shards != nil || h.up != "" }

// answersFrom says who answers tasks that nobody is given.
func (h *Handler) answersFrom() string {
	if h.ofShards() { // on each, others stand for the tasks of other shards
		return "from outside, or from other shards"
	}
	return "from outside"
}
