package taskstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/outage"
	"github.com/stint-tasks/stint/internal/safely"
	"github.com/stint-tasks/stint/taskstore/internal/wire"
)

// Handler serves a store over HTTP, in JSON:
//
//	GET  /groups                        the names of the groups that have tasks
//	GET  /task/ID                       a task
//	GET  /tasks/ID,ID                   a list of tasks, with null for those that are not there
//	GET  /group/GROUP?limit=1&owned=yes tasks of a group
//	POST /update                        [Store.Update]
//	POST /claim                         [Store.Claim]
//
// A task looks like this. Its data are a string of UTF-8; other bytes, which only a program in Go
// can have stored, show as U+FFFD, and so does half of a surrogate pair in a request.
//
//	{"id": 523623, "group": "map", "data": "/path/to/file:1024:2048",
//	 "timespec": 1388552400000, "ownerid": 2624}
//
// In /group, owned is one of 0, 1, yes, no, true and false; without it only tasks that are
// available are listed. limit is a number, without it all are. Slashes in GROUP may be escaped.
//
// The bodies of the POST requests, where everything but clientid, group (of adds and claims), id
// (of updates) and duration may be left out:
//
//	{"clientid": 1643,
//	 "adds": [{"group": "map", "data": "/path/to/file:1024:2048"}],
//	 "updates": [{"id": 14, "data": "some data", "timespec": -60000}],
//	 "deletes": [16, 18, 20],
//	 "depends": [12, 13]}
//
//	{"clientid": 1532, "group": "map", "duration": 60000, "depends": [14, 10]}
//
// The id of an add is ignored. Other fields are refused, also the group of an update, which cannot
// change, and an ownerid, which is the clientid. The answer has the new tasks, or the task that was
// claimed, if one was available, or says what was wrong:
//
//	{"tasks": [], "error": {"changes": [14], "deletes": [16], "depends": [12], "owned": [18]}}
//
// The tasks of a claim's depends are not claimed: a claim that depends on the only available task
// of its group is answered with no task, and no error.
//
// Limits, beyond which a request is refused with 413 or 400:
//
//	adds, updates, deletes and depends   10000 together in an update, or in a claim
//	data                                 1048576 bytes (1 MiB) of a task, 16777216 of a call
//	group                                1 to 255 bytes
//	timespec                             -253402300799999 to 253402300799999, in the year 9999
//	duration                             1 to 315360000000, which are ten years of 365 days
//	clientid, id                         1 to 9223372036854775807
//	body of a request                    33554432 bytes (32 MiB)
//	answer                               67108864 bytes (64 MiB); ask for fewer tasks
//	IDs in /tasks                        10000
//
// Lists that would be empty are left out of error, which is null after a success. Requests that
// fail for other reasons are answered in the same form, with a list of texts in bugs.
//
//	200  done; also if no task was available to claim
//	400  the request is not as described here
//	404  no task has this ID (the body is null), or the path is none of these
//	405  the method does not fit the path
//	409  tasks are not there, or owned by another client: nothing was done
//	413  the request or its answer is too large
//	500  the database failed, which is logged to [slog.Default] as it is when Handler is called,
//	     at once or counted within a minute; a POST may have taken effect: see [Store.Update]
//
// The handler asks nobody who he is. Put what does in front of it.
func Handler(store *Store) http.Handler {
	h := &handler{store: store, failures: outage.NewTallies(safely.LoggerOr(nil))}
	h.endpoints = map[string]endpoint{
		"groups": {http.MethodGet, false, h.groups},
		"task":   {http.MethodGet, true, h.task},
		"tasks":  {http.MethodGet, true, h.tasks},
		"group":  {http.MethodGet, true, h.group},
		"update": {http.MethodPost, false, h.update},
		"claim":  {http.MethodPost, false, h.claim},
	}
	return h
}

type handler struct {
	store     *Store
	failures  *outage.Tallies
	endpoints map[string]endpoint
}

// An endpoint serves the paths that begin with its name.
type endpoint struct {
	method string
	// named says that the name is followed by a slash and by what is asked for.
	named bool
	serve func(r *http.Request, name string) (answer any, err error)
}

// errNoTask is answered with 404 and null.
var errNoTask = errors.New("no such task")

// ServeHTTP does not leave the split of the path to a ServeMux, which redirects to another group if
// the name has two slashes in a row, or dots between slashes.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	first, rest, nested := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	e, found := h.endpoints[first]
	name, err := url.PathUnescape(rest)
	switch {
	case !found || nested != e.named || err != nil:
		write(w, http.StatusNotFound, failed("no such path"))
		return
	case r.Method != e.method && (e.method != http.MethodGet || r.Method != http.MethodHead):
		w.Header().Set("Allow", e.method)
		write(w, http.StatusMethodNotAllowed, failed("the method must be "+e.method))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, wire.BodyBytesMax)
	answer, err := e.serve(r, name)
	if err == nil {
		write(w, http.StatusOK, answer)
		return
	}
	status, answer := refusal(err)
	if status == http.StatusInternalServerError && r.Context().Err() == nil {
		h.failures.Failed(r.Context(),
			outage.Kind{What: "task store: request failed", Level: slog.LevelError},
			slog.String("method", r.Method), slog.String("endpoint", first),
			slog.Any("error", err))
	}
	write(w, status, answer)
}

// refusal is the answer to a request that failed. It does not repeat what a database says.
func refusal(err error) (status int, answer any) {
	var conflict *ConflictError
	switch {
	case errors.Is(err, errNoTask):
		return http.StatusNotFound, nil
	case errors.As(err, &conflict):
		return http.StatusConflict, wire.Answer{Tasks: []wire.Task{}, Error: &wire.Error{
			Changes: conflict.Changes, Deletes: conflict.Deletes,
			Depends: conflict.Depends, Owned: conflict.Owned,
		}}
	case errors.Is(err, stint.ErrTooLarge):
		return http.StatusRequestEntityTooLarge, failed(err.Error())
	case errors.Is(err, stint.ErrInvalidArgument):
		return http.StatusBadRequest, failed(err.Error())
	default:
		return http.StatusInternalServerError,
			failed("the database failed: the request may or may not have taken effect")
	}
}

func failed(bug string) wire.Answer {
	return wire.Answer{Tasks: []wire.Task{}, Error: &wire.Error{Bugs: []string{bug}}}
}

func write(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(answer) // fails only if the client has left
}

func (h *handler) groups(r *http.Request, _ string) (any, error) {
	return h.store.Groups(r.Context())
}

func (h *handler) task(r *http.Request, name string) (any, error) {
	id, err := parseID(name)
	if err != nil {
		return nil, err
	}
	task, found, err := h.store.Get(r.Context(), id)
	if err == nil && !found {
		err = errNoTask
	}
	return shown(task), err
}

func (h *handler) tasks(r *http.Request, name string) (any, error) {
	if err := checkCount("IDs", strings.Count(name, ",")+1); err != nil {
		return nil, err
	}
	var ids []int64
	for text := range strings.SplitSeq(name, ",") {
		id, err := parseID(text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	tasks, err := h.store.Tasks(r.Context(), ids)
	answer := make([]*wire.Task, len(tasks))
	for i, task := range tasks {
		if task != nil {
			answer[i] = new(wire.Task)
			*answer[i] = shown(*task)
		}
	}
	return answer, err
}

func (h *handler) group(r *http.Request, name string) (any, error) {
	limit, owned, err := parseListing(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	if limit == 0 { // to the store this means all
		return []wire.Task{}, checkName("group", -1, name, groupBytesMax)
	}
	tasks, err := h.store.Group(r.Context(), name, max(limit, 0), owned)
	return shownAll(tasks), err
}

func (h *handler) update(r *http.Request, _ string) (any, error) {
	var body wire.Update
	if err := decode(r.Body, &body); err != nil {
		return nil, err
	}
	request := Request{Client: body.ClientID, Deletes: body.Deletes, Depends: body.Depends}
	for _, add := range body.Adds {
		request.Adds = append(request.Adds, Add{
			Group: add.Group, Data: []byte(add.Data), TimeSpec: add.TimeSpec,
		})
	}
	for _, change := range body.Updates {
		request.Updates = append(request.Updates, Change{
			ID: change.ID, Data: []byte(change.Data), TimeSpec: change.TimeSpec,
		})
	}
	tasks, err := h.store.Update(r.Context(), request)
	return wire.Answer{Tasks: shownAll(tasks)}, err
}

func (h *handler) claim(r *http.Request, _ string) (any, error) {
	var body wire.Claim
	if err := decode(r.Body, &body); err != nil {
		return nil, err
	}
	if body.Duration > durationMax.Milliseconds() {
		return nil, invalid("duration", -1, "must not exceed ten years")
	}
	task, found, err := h.store.Claim(r.Context(), Claim{
		Client: body.ClientID, Group: body.Group, Depends: body.Depends,
		Duration: time.Duration(max(body.Duration, 0)) * time.Millisecond,
	})
	answer := wire.Answer{Tasks: []wire.Task{}}
	if found {
		answer.Tasks = append(answer.Tasks, shown(task))
	}
	return answer, err
}

// parseID parses digits.
func parseID(text string) (int64, error) {
	id, err := strconv.ParseUint(text, 10, 63) // which takes no sign
	if err != nil {
		return 0, invalid("ID", -1, fmt.Sprintf("%.40q is not a number of digits only", text))
	}
	return int64(id), nil
}

// parseListing parses limit, which is -1 if there is none, and owned.
func parseListing(text string) (limit int, owned bool, err error) {
	limit = -1
	values, err := url.ParseQuery(text)
	if err != nil {
		return 0, false, invalid("query", -1, "cannot be read")
	}
	for name, given := range values {
		switch {
		case len(given) > 1:
			return 0, false, invalid(fmt.Sprintf("%.40q", name), -1, "must not come twice")
		case name == "limit":
			number, err := strconv.ParseUint(given[0], 10, 31)
			if err != nil {
				return 0, false, invalid("limit", -1, "must be a number up to 2147483647")
			}
			limit = int(number)
		case name == "owned":
			if owned, err = parseBool(given[0]); err != nil {
				return 0, false, err
			}
		default:
			return 0, false, invalid(fmt.Sprintf("%.40q", name), -1, "is unknown")
		}
	}
	return limit, owned, nil
}

func parseBool(text string) (bool, error) {
	switch text {
	case "1", "yes", "true":
		return true, nil
	case "0", "no", "false":
		return false, nil
	default:
		return false, invalid("owned", -1, "must be 0, 1, yes, no, true or false")
	}
}

// decode reads a body that is one JSON object and nothing else.
func decode(body io.Reader, into any) error {
	text, err := io.ReadAll(body)
	var tooMuch *http.MaxBytesError
	switch {
	case errors.As(err, &tooMuch):
		return tooLarge("body bytes", -1, len(text)+1, wire.BodyBytesMax)
	case err != nil:
		return invalid("body", -1, "was cut off")
	case !utf8.Valid(text):
		return invalid("body", -1, "must be valid UTF-8")
	case !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")):
		return invalid("body", -1, "must be a JSON object")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return invalid("body", -1, err.Error())
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return invalid("body", -1, "must hold nothing behind the JSON object")
	}
	return nil
}

func shown(task Task) wire.Task {
	return wire.Task{
		ID: task.ID, Group: task.Group, Data: string(task.Data),
		TimeSpec: task.TimeSpec, OwnerID: task.Owner,
	}
}

func shownAll(tasks []Task) []wire.Task {
	answer := make([]wire.Task, len(tasks))
	for i, task := range tasks {
		answer[i] = shown(task)
	}
	return answer
}
