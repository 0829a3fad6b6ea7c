// Package filters reads what a list is to show from the address of its page, and refuses what it
// cannot.
package filters

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

// A Filter is the filter of a page as its form has it.
type Filter struct {
	States  map[stint.State]bool
	Action  string
	Prefix  string
	Key     string
	Header  string // a name and a value, with = between them
	Body    string
	Message string
	Actor   string
	Order   string // "newest", or "" for the store's own
	Age     string // one of ages
	Size    int
	Ages    []age
	Orders  []Choice
	Sizes   []int
	Columns map[string]bool // those that are shown besides the usual ones
	Finer   bool            // it picks among the tasks of a state and an action
	Further bool            // it has what few filters have
	Present bool            // it filters anything
}

// A Choice is one of those of a list.
type Choice struct{ Value, Text string }

// An age is how long ago a task was inserted, at most or at least.
type age struct {
	Choice
	atMost, atLeast time.Duration
}

func ages() []age {
	const day = 24 * time.Hour
	return []age{
		{Choice: Choice{"", "at any time"}},
		{Choice: Choice{"1m", "in the last minute"}, atMost: time.Minute},
		{Choice: Choice{"1h", "in the last hour"}, atMost: time.Hour},
		{Choice: Choice{"1d", "in the last day"}, atMost: day},
		{Choice: Choice{"1h+", "more than an hour ago"}, atLeast: time.Hour},
		{Choice: Choice{"1d+", "more than a day ago"}, atLeast: day},
	}
}

// pageSizes are how many tasks a page may list.
func pageSizes() []int { return []int{50, 200, 1000} }

// The parameters by which a list has more columns.
const (
	WithKey      = "with-key"
	WithPriority = "with-priority"
	WithTook     = "with-took"
	WithBody     = "with-body"
)

func columns() []string { return []string{WithKey, WithPriority, WithTook, WithBody} }

const (
	orderNewest = "newest"
	orderStore  = "store"
)

// New reads a filter from the address of a page, and what it asks the store for.
func New(query url.Values) (Filter, stint.Filter) {
	f := Filter{
		States: map[stint.State]bool{}, Columns: map[string]bool{},
		Action: query.Get("action"), Prefix: query.Get("prefix"),
		Key: query.Get("key"), Header: query.Get("header"), Actor: query.Get("actor"),
		Body: query.Get("body"), Message: query.Get("message"), Age: query.Get("age"),
		Order: query.Get("order"), Ages: ages(), Sizes: pageSizes(), Size: pageSizes()[0],
		Orders: []Choice{{orderNewest, "newest first"}, {orderStore, "by state or ID"}},
	}
	for _, column := range columns() {
		f.Columns[column] = query.Get(column) != ""
	}
	asked := stint.Filter{
		IDPrefix: f.Prefix, Key: f.Key, Actor: stint.ActorID(f.Actor), Body: f.Body,
		Status: f.Message, After: stint.Cursor(query.Get("after")),
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
	further := f.Header != "" || f.Actor != "" || f.Body != "" || f.Message != "" || f.Age != ""
	f.Finer = further || f.Prefix != "" || f.Key != ""
	f.Further = further || f.Size != f.Sizes[0] ||
		slices.Contains(slices.Collect(maps.Values(f.Columns)), true)
	f.Present = f.Finer || len(asked.States) > 0 || f.Action != ""
	return f, asked
}

// Command is the command line that lists the same; empty where nobody can type it.
func Command(f Filter, asked stint.Filter) string {
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
	add("body", f.Body)
	add("message", f.Message)
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

// WithoutCursor is the filter of the address of a page.
func WithoutCursor(query url.Values) url.Values {
	query = maps.Clone(query)
	query.Del("after")
	return query
}

// WithCursor is the address of the same list from a cursor on.
func WithCursor(query url.Values, cursor string) string {
	query.Del("after")
	if cursor != "" {
		query.Set("after", cursor)
	}
	return "tasks?" + query.Encode()
}
