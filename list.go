package stint

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/headers"
	"github.com/stint-tasks/stint/internal/listing"
	"github.com/stint-tasks/stint/internal/pg"
)

// valueBytesMax is more than any value of a task has.
const valueBytesMax = math.MaxInt32

// GetTasks returns what the store knows of tasks, all of it as of one instant, in the order asked.
// If there is no task of an ID, the error is [ErrTaskNotFound], in a [*TaskError] that names every
// such ID; the others are still returned.
func (s *Store) GetTasks(ctx context.Context, ids []TaskID) ([]TaskInfo, error) {
	infos, _, err := s.getTasks(ctx, ids, valueBytesMax)
	if err != nil {
		return infos, fmt.Errorf("get tasks: %w", err)
	}
	return infos, nil
}

func (s *Store) getTasks(
	ctx context.Context, ids []TaskID, most int,
) (infos []TaskInfo, left int64, err error) {
	if err := checkIDs(ids); err != nil {
		return nil, 0, err
	}
	if len(ids) == 0 {
		return nil, 0, s.db.CheckOpen(ctx)
	}
	found, err := s.findTasks(ctx, ids, most)
	if err != nil {
		return nil, 0, err
	}
	infos = make([]TaskInfo, 0, len(ids))
	var missing []TaskID
	for _, id := range ids {
		if task, ok := found[id]; ok {
			infos, left = append(infos, task.info), left+task.left
		} else {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return infos, left, &TaskError{IDs: slices.Compact(missing), Err: ErrTaskNotFound}
	}
	return infos, left, nil
}

// A foundTask is a task with what the store knows of it.
type foundTask struct {
	key  int64
	info TaskInfo
	left int64 // how many bytes of it were not read
}

// findTasks looks tasks up, without their values of more than most bytes; IDs that no task has are
// left out.
func (s *Store) findTasks(
	ctx context.Context, ids []TaskID, most int,
) (map[TaskID]foundTask, error) {
	found := make(map[TaskID]foundTask, len(ids))
	find := pg.Step{Name: "get_tasks", Args: []any{texts(ids)}}
	if most < valueBytesMax {
		find = pg.Step{Name: "small_tasks", Args: []any{texts(ids), most}}
	}
	find.Read = func(rows pgx.Rows) error {
		for rows.Next() {
			var task foundTask
			var total, missing int
			more := []any{&task.key, &total, &missing, &task.left}
			if most >= valueBytesMax {
				more = more[:3]
			}
			var err error
			if task.info, err = readInfo(rows, more...); err != nil {
				return err
			}
			task.info.depends(total, missing)
			found[task.info.ID] = task
		}
		return rows.Err()
	}
	err := s.db.Run(ctx, find)
	return found, err
}

// A Filter picks tasks. The zero value picks all of them.
type Filter struct {
	Actions  []string // up to 1,000; default: all
	States   []State  // default: all
	Key      string   // the task's [Task.Key]; default: any
	IDPrefix string   // the beginning of the ID; default: any
	Actor    ActorID  // the owner, or the last owner of a finished task; default: any

	// Headers are headers that the task has, perhaps among others, with these values. Default: any.
	Headers map[string]string

	// Body is a path in a body of JSON, such as $.lines[*] ? (@.price > 100), or a condition, such
	// as $.customer.id == 7 or $.a starts with "b" && !exists($.c), in PostgreSQL's jsonpath, with
	// the operators ==, !=, <, <=, >, >=, &&, || and !. At most 512 bytes. Default: any body.
	Body string

	// Status is a part of [TaskInfo.Status], in any letter case: which letters are alike says the
	// collation of the database. At most 512 bytes. Default: any.
	Status string

	// MinAge and MaxAge are limits for how long ago the task was inserted, on the database's clock.
	// Default: any age.
	MinAge, MaxAge time.Duration

	// NewestFirst lists the task first that was inserted last, to within a minute, whatever its
	// state. The store then reads all tasks in that order, 10,000 at most for a page, not only
	// those of the prefix, states or actor.
	NewestFirst bool

	// After asks for the next page: set it to the Next of a page, and leave the rest of the filter
	// as it is. Where tasks come in the order of their IDs, it may be any ID: the page begins after
	// that.
	After Cursor

	Limit int // how many tasks to return at most; default: 100, at most 10,000
}

// A Cursor marks where a page ends, of [Store.ListTasks], [Store.Ends] and others.
type Cursor string

// A TaskPage is an answer of [Store.ListTasks].
type TaskPage struct {
	Tasks []TaskInfo

	// Next is [Filter.After] for the next page; empty if there are no more tasks. There may be a
	// next page even if this one has fewer than Limit tasks, or none: see Looked. A page also ends
	// before the texts of its tasks ([TaskInfo.Status] and Headers) have more than 8 MiB.
	Next Cursor

	// Looked is how many tasks the store read to find Tasks: at most about 10,000 for a page, and
	// with [Filter.Body] no more than have 16 MiB of bodies, or a single larger one.
	Looked int
}

const (
	listedTasksDefault = 100

	// How many tasks are looked at for one page, and in one statement.
	lookedTasksMax = 10_000
	lookedAtOnce   = 1000

	// listedBytesMax is how many bytes the texts of a page have: each may have 64 KiB.
	listedBytesMax = 8 << 20
)

// ListTasks returns the tasks that pass a filter, a page at a time, without their bodies and
// results.
//
// They come in the order of their IDs, unless [Filter.NewestFirst] is set. If the filter names
// states or an actor and no prefix, they come state by state: in progress, ready, scheduled,
// blocked, aborted, skipped, completed. Finished ones come newest first, scheduled ones by the time
// at which they are due, ready tasks of named actions in the order of the fetch, behind those that
// wait for capacity below a limit of their key or for its turn, and the others roughly in the order
// of insertion. An actor has tasks in progress, aborted and completed ones.
//
// So the store reads only the tasks of the prefix, of the states or of the actor. It skips those
// that the rest of the filter excludes, until the page is full or it has read 10,000 tasks, so a
// page may have few tasks although there are more.
//
// A page of several states is as of one instant, or, in the caller's transaction, as of the instant
// of each of its statements; other pages are as of one instant for a thousand tasks at a time. A
// task that changes its state between two pages may be on both or on neither.
func (s *Store) ListTasks(ctx context.Context, filter Filter) (TaskPage, error) {
	page, err := s.listTasks(ctx, filter)
	if err != nil {
		return TaskPage{}, fmt.Errorf("list tasks: %w", err)
	}
	return page, nil
}

func (s *Store) listTasks(ctx context.Context, filter Filter) (TaskPage, error) {
	var page TaskPage
	if err := filter.check(); err != nil {
		return page, err
	}
	search, err := listing.NewSearch(filter.Body)
	if err != nil {
		return page, argumentError("Filter.Body", err.Error())
	}
	walk, err := filter.walk()
	switch {
	case err != nil:
		return page, err
	case len(walk.Sources) == 0: // no actor has tasks that are ready
		return page, s.db.CheckOpen(ctx)
	case len(walk.Sources) == 1 && search == nil:
		return s.listAlong(ctx, filter, walk, nil)
	}
	err = s.atOneInstant(ctx, func(s *Store) error {
		page, err = s.listAlong(ctx, filter, walk, search)
		return err
	})
	return page, err
}

// atOneInstant lets look see the store as it is at one instant, however often look asks. In the
// caller's transaction, look sees what that transaction sees.
func (s *Store) atOneInstant(ctx context.Context, look func(*Store) error) error {
	if s.db.InTx() {
		return look(s)
	}
	return s.db.Read(ctx, pgx.RepeatableRead, func(db *pg.DB) error { return look(s.on(db)) })
}

// listAlong lists a page, of what the search finds if there is one.
func (s *Store) listAlong(
	ctx context.Context, filter Filter, walk *listing.Walk, search *listing.Search,
) (page TaskPage, err error) {
	limit := cmp.Or(filter.Limit, listedTasksDefault)
	left := listedBytesMax
	for most := limit; ; most *= 2 {
		most = min(most, lookedAtOnce, lookedTasksMax-page.Looked)
		looked, err := s.findListed(ctx, walk, most)
		if err != nil {
			return page, err
		}
		infos, places, err := s.pick(ctx, filter, looked, limit-len(page.Tasks), search)
		if err != nil {
			return page, err
		}
		looked = search.Through(looked)
		page.Looked += len(looked)
		full := false
		for i := range infos {
			left -= len(infos[i].Status) + headers.Size(infos[i].Headers)
			if full = left < 0 && len(page.Tasks) > 0; full {
				break
			}
			page.Tasks = append(page.Tasks, infos[i])
			walk.Place, full = looked[places[i]-1], len(page.Tasks) == limit
		}
		switch n := len(looked); {
		case full && walk.Place != looked[n-1]: // more of what was looked at may be listed
		case n == most || search.IsTired():
			walk.Place = looked[n-1]
		default:
			walk.Next()
		}
		if len(walk.Sources) == 0 {
			return page, nil
		}
		if full || search.IsTired() || page.Looked == lookedTasksMax {
			page.Next = Cursor(walk.Cursor())
			return page, nil
		}
	}
}

func (f *Filter) check() error {
	for i, action := range f.Actions {
		if err := checkText("Filter.Actions", action, actionBytesMax); err != nil {
			return at(err, i, "")
		}
	}
	for i, state := range f.States {
		if stateNumbers(state) == nil {
			return at(argumentError("Filter.States", "unknown state"), i, "")
		}
	}
	for _, text := range []struct {
		argument, value string
		bytesMax        int
	}{
		{"Filter.Key", f.Key, keyBytesMax},
		{"Filter.IDPrefix", f.IDPrefix, idBytesMax},
		{"Filter.After", string(f.After), idBytesMax},
		{"Filter.Actor", string(f.Actor), actorBytesMax},
		{"Filter.Status", f.Status, statusPartBytesMax},
	} {
		if text.value == "" {
			continue
		}
		if err := checkText(text.argument, text.value, text.bytesMax); err != nil {
			return err
		}
	}
	switch {
	case f.MinAge < 0 || f.MaxAge < 0:
		return argumentError("Filter.MinAge and MaxAge", "must not be negative")
	case f.Limit < 0:
		return argumentError("Filter.Limit", "must not be negative")
	case len(f.Actions) > listedActionsMax:
		return tooLarge("Filter.Actions", len(f.Actions), listedActionsMax)
	case f.Limit > listedTasksMax:
		return tooLarge("Filter.Limit", f.Limit, listedTasksMax)
	}
	return checkHeaders("Filter.Headers", f.Headers)
}

// findListed returns the places of the next tasks that may be listed.
func (s *Store) findListed(
	ctx context.Context, walk *listing.Walk, most int,
) (looked []listing.Place, err error) {
	source := walk.Sources[0]
	err = s.db.Run(ctx, pg.Step{
		Name: source.Name, Args: append(source.Args(walk.Place), most),
		Read: func(rows pgx.Rows) error {
			looked, err = listing.ReadPlaces(rows)
			return err
		},
	})
	return looked, err
}

// pick returns the tasks that pass the filter, and their places in looked, from 1 on.
func (s *Store) pick(
	ctx context.Context, filter Filter, looked []listing.Place, limit int, search *listing.Search,
) (infos []TaskInfo, places []int64, err error) {
	if len(looked) == 0 {
		return nil, nil, nil
	}
	keys := make([]int64, len(looked))
	for i, place := range looked {
		keys[i] = place.Key
	}
	var actions []string // nil, which is null, for all
	actions = append(actions, filter.Actions...)
	var states []int16
	for _, state := range filter.States {
		states = append(states, stateNumbers(state)...)
	}
	err = s.db.Run(ctx, pg.Step{
		Name: "list_tasks",
		Args: []any{
			keys, actions, states, pg.NonZero(string(filter.Actor)), pg.NonZero(filter.MinAge),
			pg.NonZero(filter.MaxAge), pg.NonZero(filter.IDPrefix), pg.NonZero(filter.Key),
			headers.Encode(filter.Headers), pg.NonZero(filter.Status), search.Wants(limit, looked),
		},
		Read: func(rows pgx.Rows) error {
			infos, places = nil, nil
			for rows.Next() {
				var place int64
				info, err := readInfo(rows, &place)
				if err != nil {
					return err
				}
				infos, places = append(infos, info), append(places, place)
			}
			return rows.Err()
		},
	})
	if err != nil || search == nil {
		return infos, places, err
	}
	matching, err := search.Match(ctx, s.db, looked, places, limit)
	for to, from := range matching {
		infos[to], places[to] = infos[from], places[from]
	}
	return infos[:len(matching)], places[:len(matching)], err
}

// walk returns the order of the tasks that the filter asks for, from its cursor on.
func (f *Filter) walk() (*listing.Walk, error) {
	var states []listing.State // nil, which means all
	for _, state := range f.States {
		states = append(states, listing.State(state))
	}
	walk, ok := listing.New(listing.Want{
		NewestFirst: f.NewestFirst, IDPrefix: f.IDPrefix, Actor: string(f.Actor),
		Actions: f.Actions, States: states, After: string(f.After),
	})
	if !ok {
		return nil, argumentError("Filter.After", "must be the Next of a page")
	}
	return walk, nil
}
