package ui

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// choicesMax is how many actions the form offers.
const choicesMax = 500

// pageSizes are how many tasks a page may list.
func pageSizes() []int { return []int{50, 200, 1000} }

type tasksData struct {
	Partly   bool // as in [request]
	Filter   taskFilter
	Tasks    []stint.TaskInfo
	Next     string // the address of the next page; empty if there is none
	First    string // that of the first one; empty on it
	Looked   int
	Cut      bool // the store stopped before the page was full
	Filtered bool
	Actions  []string // to choose from
	Command  string
	Doubts   []show.Sentence // where nothing was found: what is not known of the filter
	Picking  *offer          // what can be done with tasks; nil if nothing
	Now      time.Time
}

// A taskFilter is the filter of a page as its form has it.
type taskFilter struct {
	States  map[stint.State]bool
	Action  string
	Prefix  string
	Key     string
	Header  string // a name and a value, with = between them
	Actor   string
	Order   string // "newest", or "" for the store's own
	Age     string // one of ages
	Size    int
	Ages    []age
	Orders  []choice
	Sizes   []int
	Present bool // it filters anything
}

// A choice is one of those of a list.
type choice struct{ Value, Text string }

// An age is how long ago a task was inserted, at most or at least.
type age struct {
	choice
	atMost, atLeast time.Duration
}

func ages() []age {
	const day = 24 * time.Hour
	return []age{
		{choice: choice{"", "at any time"}},
		{choice: choice{"1m", "in the last minute"}, atMost: time.Minute},
		{choice: choice{"1h", "in the last hour"}, atMost: time.Hour},
		{choice: choice{"1d", "in the last day"}, atMost: day},
		{choice: choice{"1h+", "more than an hour ago"}, atLeast: time.Hour},
		{choice: choice{"1d+", "more than a day ago"}, atLeast: day},
	}
}

const (
	orderNewest = "newest"
	orderStore  = "store"
)

// newTaskFilter reads a filter from the address of a page, and what it asks the store for.
func newTaskFilter(query url.Values) (taskFilter, stint.Filter) {
	f := taskFilter{
		States: map[stint.State]bool{}, Action: query.Get("action"), Prefix: query.Get("prefix"),
		Key: query.Get("key"), Header: query.Get("header"), Actor: query.Get("actor"),
		Age:   query.Get("age"),
		Order: query.Get("order"), Ages: ages(), Sizes: pageSizes(), Size: pageSizes()[0],
		Orders: []choice{{orderNewest, "newest first"}, {orderStore, "by state or ID"}},
	}
	asked := stint.Filter{
		IDPrefix: f.Prefix, Key: f.Key, Actor: stint.ActorID(f.Actor),
		After: stint.Cursor(query.Get("after")),
	}
	for _, state := range query["state"] {
		if slices.Contains(show.States(), stint.State(state)) && !f.States[stint.State(state)] {
			f.States[stint.State(state)] = true
			asked.States = append(asked.States, stint.State(state))
		}
	}
	if f.Header != "" {
		name, value, _ := strings.Cut(f.Header, "=")
		asked.Headers = map[string]string{name: value}
	}
	if f.Action != "" {
		asked.Actions = []string{f.Action}
	}
	for _, age := range f.Ages {
		if age.Value == f.Age {
			asked.MinAge, asked.MaxAge = age.atLeast, age.atMost
		}
	}
	if size, _ := strconv.Atoi(query.Get("size")); slices.Contains(f.Sizes, size) {
		f.Size = size
	}
	asked.Limit = f.Size
	// Where the store can go straight to the tasks, it does not look through all of them.
	if f.Order != orderNewest && f.Order != orderStore {
		f.Order = orderStore
		if len(asked.States) == 0 && f.Prefix == "" && f.Actor == "" {
			f.Order = orderNewest
		}
	}
	asked.NewestFirst = f.Order == orderNewest
	f.Present = len(asked.States) > 0 || f.Action != "" || f.Prefix != "" || f.Key != "" ||
		f.Header != "" || f.Actor != "" || f.Age != ""
	return f, asked
}

// tasks lists tasks by a filter.
func tasks(h *Handler, r *request) (view, error) {
	query := r.URL.Query()
	if err := checkTaskQuery(query); err != nil {
		return view{}, err
	}
	filter, asked := newTaskFilter(query)
	found, err := h.asked.List(r.Context(), asked)
	if err != nil {
		return view{}, err
	}
	data := tasksData{
		Partly: r.partly,
		Filter: filter, Tasks: found.Tasks, Looked: found.Looked, Filtered: filter.Present,
		Cut: found.Next != "" && len(found.Tasks) < filter.Size, Now: r.now,
		Command: commandOf(filter, asked),
	}
	if len(found.Tasks) == 0 && found.Next == "" {
		data.Doubts = h.doubtsOfFilter(r, filter.Action, filter.Key)
	}
	data.Picking = h.offer(r, []field{
		{"filter", withoutCursor(query).Encode()}, {"back", here(r)},
	}, "run", "retry", "change", "abort", "delete")
	if found.Next != "" {
		data.Next = withCursor(query, string(found.Next))
	}
	if asked.After != "" {
		data.First = withCursor(query, "")
	}
	if stats, err := h.asked.Counts.Get(r.Context()); err == nil {
		for i := range stats.Actions[:min(len(stats.Actions), choicesMax)] {
			data.Actions = append(data.Actions, stats.Actions[i].Action)
		}
	}
	return view{name: "tasks", data: data}, nil
}

// withoutCursor is the filter of the address of a page.
func withoutCursor(query url.Values) url.Values {
	query = maps.Clone(query)
	query.Del("after")
	return query
}

// withCursor is the address of the same list from a cursor on.
func withCursor(query url.Values, cursor string) string {
	query.Del("after")
	if cursor != "" {
		query.Set("after", cursor)
	}
	return "tasks?" + query.Encode()
}

// commandOf is the command line that lists the same; empty where nobody can type it.
func commandOf(f taskFilter, asked stint.Filter) string {
	line, hidden := "stint ls", false
	add := func(flag, value string) {
		if value != "" {
			line += " --" + flag + "=" + display.Word(value)
			hidden = hidden || display.Text(value) != value
		}
	}
	for _, state := range asked.States {
		add("state", string(state))
	}
	add("action", f.Action)
	add("prefix", f.Prefix)
	add("key", f.Key)
	add("header", f.Header)
	add("actor", f.Actor)
	if asked.MaxAge > 0 {
		add("newer-than", asked.MaxAge.String())
	}
	if asked.MinAge > 0 {
		add("older-than", asked.MinAge.String())
	}
	if asked.NewestFirst {
		line += " --newest"
	}
	if hidden {
		return ""
	}
	return line
}
