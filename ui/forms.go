package ui

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
)

const (
	// formBytesMax is how long a form may be: 10,000 tasks with the longest IDs fit.
	formBytesMax = 8 << 20
	// tasksAtOnce is how many tasks are changed at once.
	tasksAtOnce = 10_000
	// previewMax is how old a preview may be that somebody agrees to.
	previewMax = time.Hour
)

// readForm reads the form that a request has sent, and which change it is about.
func (h *Handler) readForm(w http.ResponseWriter, r *request) (kind, error) {
	r.Body = http.MaxBytesReader(w, r.Body, formBytesMax)
	if err := r.ParseForm(); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return kind{}, errLargeForm
		}
		return kind{}, errBadForm
	}
	if !isText(r.PostForm) {
		return kind{}, errNotText
	}
	if !r.PostForm.Has("do") {
		return kind{}, badFields(nil, []string{"do"}, nil)
	}
	k, ok := kindNamed(r.PostForm.Get("do"))
	switch {
	case !ok || !h.asked.can(&k):
		return kind{}, errBadForm
	case !r.may(k.needs):
		return kind{}, errForbidden
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
		return k, errBadForm
	case !isText(filter):
		return k, errNotText
	}
	return k, checkTaskQuery(filter)
}

// Texts in forms are written so that browsers send them as they are, with whatever is in them:
// these make other line ends, for example.

func packText(text string) string { return url.QueryEscape(text) }

func unpackText(packed string) (string, error) {
	text, err := url.QueryUnescape(packed)
	if err != nil || !isText(url.Values{"": {text}}) {
		return "", errBadForm
	}
	return text, nil
}

// packTasks writes tasks as they were seen: of each the length of its ID, the ID, when it was
// inserted and has finished, in microseconds, and its state.
func packTasks(tasks ...bulk.Task) string {
	var packed []byte
	micros := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.UnixMicro()
	}
	for i := range tasks {
		packed = binary.AppendUvarint(packed, uint64(len(tasks[i].ID)))
		packed = append(packed, tasks[i].ID...)
		packed = binary.AppendVarint(packed, micros(tasks[i].Inserted))
		packed = binary.AppendVarint(packed, micros(tasks[i].Finished))
		state := slices.Index(states(), tasks[i].State) + 1 // 0: not known
		packed = append(packed, byte(state))                //nolint:gosec // one of a few
	}
	return base64.RawURLEncoding.EncodeToString(packed)
}

// unpackTasks reads tasks, each once, in the order of their IDs.
func unpackTasks(values []string) (tasks []bulk.Task, err error) {
	moment := func(micros int64) time.Time {
		if micros == 0 {
			return time.Time{}
		}
		return time.UnixMicro(micros)
	}
	for _, value := range values {
		packed, err := base64.RawURLEncoding.DecodeString(value)
		if err != nil {
			return nil, errBadForm
		}
		for len(packed) > 0 {
			length, n := binary.Uvarint(packed)
			if n <= 0 || length > uint64(len(packed)-n) { //nolint:gosec // n is part of it
				return nil, errBadForm
			}
			id := string(packed[n : n+int(length)]) //nolint:gosec // it is not more than there is
			packed = packed[n+int(length):]         //nolint:gosec // see above
			inserted, n := binary.Varint(packed)
			finished, m := binary.Varint(packed[max(n, 0):])
			if n <= 0 || m <= 0 {
				return nil, errBadForm
			}
			if packed = packed[n+m:]; !isText(url.Values{"": {id}}) {
				return nil, errNotText
			}
			if len(packed) == 0 || int(packed[0]) > len(states()) {
				return nil, errBadForm
			}
			state := append([]stint.State{""}, states()...)[packed[0]]
			packed = packed[1:]
			if len(tasks) == tasksAtOnce {
				return nil, errManyTasks
			}
			tasks = append(tasks, bulk.Task{
				ID: stint.TaskID(id), Inserted: moment(inserted), Finished: moment(finished),
				State: state,
			})
		}
	}
	byID := func(a, b bulk.Task) int { return strings.Compare(string(a.ID), string(b.ID)) }
	slices.SortStableFunc(tasks, byID)
	same := func(a, b bulk.Task) bool { return a.ID == b.ID }
	return slices.CompactFunc(tasks, same), nil
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
		return time.Time{}, errBadForm
	}
	at := time.UnixMicro(micros)
	if age := r.now.Sub(at); age > previewMax || age < -previewMax {
		return time.Time{}, errOldForm
	}
	return at, nil
}

// localLink is an address if it is one of a page of the handler's, and otherwise the overview's.
func (h *Handler) localLink(address string) string {
	name, query, _ := strings.Cut(address, "?")
	found, ok := h.pages[strings.TrimPrefix(name, "./")]
	values, err := url.ParseQuery(query)
	if !ok || found.post || err != nil || !isText(values) || len(query) > queryBytesMax {
		return "./"
	}
	if len(values) == 0 {
		return found.Name()
	}
	return found.Name() + "?" + values.Encode()
}

// here is the address of the page that is asked for, as one of the handler's.
func here(r *request) string {
	query := r.URL.Query()
	if len(query) == 0 {
		return r.page.Name()
	}
	return r.page.Name() + "?" + query.Encode()
}
