package ui

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/ui/internal/filters"
	"github.com/stint-tasks/stint/ui/internal/refuse"
)

const (
	// formBytesMax is how long a form may be: 10,000 tasks with the longest IDs fit.
	formBytesMax = 8 << 20
	// tasksAtOnce is how many tasks are changed at once.
	tasksAtOnce = 10_000
	// previewMax is how old a preview may be that somebody agrees to.
	previewMax = time.Hour
	// changeTimeout is how long a change may take, and what would become of it.
	changeTimeout = time.Minute
	// changesMax is how many changes are under way at once, and how many previews.
	changesMax = 2
	// queryBytesMax is how long the query of an address may be.
	queryBytesMax = 16 << 10
)

// readForm reads the form that a request has sent, and which change it is about.
func (h *Handler) readForm(w http.ResponseWriter, r *request) (kind, error) {
	r.Body = http.MaxBytesReader(w, r.Body, formBytesMax)
	if err := r.ParseForm(); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return kind{}, refuse.ErrLargeForm
		}
		return kind{}, refuse.ErrBadForm
	}
	if !filters.IsText(r.PostForm) {
		return kind{}, refuse.ErrNotText
	}
	if !r.PostForm.Has("do") {
		return kind{}, refuse.BadFields(nil, []string{"do"}, nil)
	}
	k, ok := kindNamed(r.PostForm.Get("do"))
	switch {
	case !ok || !h.can(&k):
		return kind{}, refuse.ErrBadForm
	case !k.isFor(r):
		return kind{}, refuse.ErrNotAllowed
	}
	fields := askedFields(&k, r.PostForm)
	if r.page.name == "change" {
		fields = agreedFields(&k, r.PostForm)
	}
	if err := fields.check(r.PostForm); err != nil {
		return k, err
	}
	filter, err := url.ParseQuery(r.PostForm.Get("filter"))
	switch {
	case err != nil:
		return k, refuse.ErrBadForm
	case !filters.IsText(filter):
		return k, refuse.ErrNotText
	}
	return k, filters.Check(filter)
}

// Texts in forms are written so that browsers send them as they are, with whatever is in them:
// these make other line ends, for example.

func packText(text string) string { return url.QueryEscape(text) }

func unpackText(packed string) (string, error) {
	text, err := url.QueryUnescape(packed)
	if err != nil || !filters.IsText(url.Values{"": {text}}) {
		return "", refuse.ErrBadForm
	}
	return text, nil
}

// unpackTasks reads the tasks of a form, each once, in the order of their IDs.
func unpackTasks(values []string) ([]bulk.Task, error) {
	tasks, err := bulk.Unpack(values, tasksAtOnce)
	switch {
	case errors.Is(err, bulk.ErrManyPacked):
		return nil, refuse.ErrManyTasks
	case err != nil:
		return nil, refuse.ErrBadForm
	}
	for i := range tasks {
		if !filters.IsText(url.Values{"": {string(tasks[i].ID)}}) {
			return nil, refuse.ErrNotText
		}
	}
	return tasks, nil
}

// agreed are the fields of what somebody agrees to.
func (h *Handler) agreed(r *request, k *kind, fields ...field) []field {
	return append([]field{
		{"do", k.name},
		{"at", strconv.FormatInt(r.now.UnixMicro(), 10)},
		{"back", h.localLink(r.PostForm.Get("back"))},
	}, fields...)
}

// agreedAt is when somebody saw what he agrees to.
func agreedAt(r *request) (time.Time, error) {
	micros, err := strconv.ParseInt(r.PostForm.Get("at"), 10, 64)
	if err != nil {
		return time.Time{}, refuse.ErrBadForm
	}
	at := time.UnixMicro(micros)
	if age := r.now.Sub(at); age > previewMax || age < -previewMax {
		return time.Time{}, refuse.ErrOldForm
	}
	return at, nil
}

// localLink is an address if it is one of a page of the handler's, and otherwise the overview's.
func (h *Handler) localLink(address string) string {
	name, query, _ := strings.Cut(address, "?")
	found, ok := h.pages[strings.TrimPrefix(name, "./")]
	values, err := url.ParseQuery(query)
	if !ok || found.post || err != nil || !filters.IsText(values) || len(query) > queryBytesMax {
		return "./"
	}
	if len(values) == 0 {
		return found.Name()
	}
	return found.Name() + "?" + values.Encode()
}

// await waits until a change, or a preview, may begin that takes a place among others. Done says
// that it has ended.
func await(ctx context.Context, places chan struct{}) (done func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
