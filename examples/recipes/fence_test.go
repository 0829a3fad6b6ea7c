package recipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/stinttest"
)

var errLate = errors.New("a later owner of the task has written")

// publish writes a report into another database, unless a later owner of the task has done so.
func publish(
	ctx context.Context, other *pgxpool.Pool, id stint.TaskID, fence int64, report []byte,
) error {
	written, err := other.Exec(ctx, `
		INSERT INTO reports (id, fence, report) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET fence = excluded.fence, report = excluded.report
		WHERE reports.fence <= excluded.fence`, string(id), fence, report)
	if err == nil && written.RowsAffected() == 0 {
		err = errLate
	}
	return err
}

// upload writes an object, unless a later owner of the task has done so.
func upload(ctx context.Context, url string, fence int64, content string) error {
	for {
		version, last, err := look(ctx, url) // its ETag, and the number in its metadata
		if err != nil {
			return err
		}
		if last > fence {
			return errLate
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPut, url,
			strings.NewReader(content))
		if err != nil {
			return err
		}
		if version == "" {
			request.Header.Set("If-None-Match", "*")
		} else {
			request.Header.Set("If-Match", version)
		}
		request.Header.Set("X-Amz-Meta-Fence", strconv.FormatInt(fence, 10))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		switch response.StatusCode {
		case http.StatusOK, http.StatusCreated:
			return nil
		case http.StatusPreconditionFailed, http.StatusConflict: // another version by now
		default:
			return fmt.Errorf("upload: %s", response.Status)
		}
	}
}

// look returns the version of an object and the number of its owner; empty and 0 if there is none.
func look(ctx context.Context, url string) (version string, fence int64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, url, http.NoBody)
	if err != nil {
		return "", 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", 0, err
	}
	response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		fence, err = strconv.ParseInt(response.Header.Get("X-Amz-Meta-Fence"), 10, 64)
		return response.Header.Get("ETag"), fence, err
	case http.StatusNotFound:
		return "", 0, nil
	}
	return "", 0, fmt.Errorf("look: %s", response.Status)
}

// An object is all that a fake of an object store has.
type object struct {
	mutex    sync.Mutex
	version  int
	fence    string
	content  string
	before   func() // the next write, once
	conflict bool   // whether a write was refused
}

func (o *object) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if before := o.before; r.Method == http.MethodPut && before != nil {
		o.before = nil
		before()
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	version := ""
	if o.version > 0 {
		version = strconv.Quote(strconv.Itoa(o.version))
	}
	switch {
	case r.Method == http.MethodHead && version == "":
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodHead:
		w.Header().Set("ETag", version)
		w.Header().Set("X-Amz-Meta-Fence", o.fence)
	case r.Header.Get("If-None-Match") == "*" && version != "",
		r.Header.Get("If-None-Match") == "" && r.Header.Get("If-Match") != version:
		o.conflict = true
		w.WriteHeader(http.StatusPreconditionFailed)
	default:
		content, _ := io.ReadAll(r.Body)
		o.version, o.fence, o.content = o.version+1, r.Header.Get("X-Amz-Meta-Fence"),
			string(content)
	}
}

// Whichever of two owners writes last, what the later owner has written stays, in a table and in an
// object store; also if both write at the same moment.
//
// Proves G329.
func TestFence_HasLateOwnerRefused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := stinttest.New(t, stint.Options{})
	pool := store.Pool
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s = %v", what, err)
		}
	}
	_, err := pool.Exec(ctx,
		"CREATE TABLE reports (id text PRIMARY KEY, fence bigint, report bytea)")
	must("CREATE TABLE", err)
	must("InsertTasks", store.InsertTasks(ctx, []stint.Task{{ID: "a", Action: "act"}}))
	var fences []int64
	for range 2 {
		owned, err := store.OwnTasks(ctx, "actor", 1, []string{"act"}, time.Hour)
		must("OwnTasks", err)
		fence, err := store.Fence(ctx, owned[0])
		must("Fence", err)
		fences = append(fences, fence)
		stinttest.ExpireLeases(t, store, "a")
	}
	late, next := fences[0], fences[1]

	must("publish early", publish(ctx, pool, "a", late, []byte("early")))
	must("publish next", publish(ctx, pool, "a", next, []byte("next")))
	must("publish again", publish(ctx, pool, "a", next, []byte("again")))
	if err := publish(ctx, pool, "a", late, []byte("late")); !errors.Is(err, errLate) {
		t.Errorf("publish = %v, want it refused", err)
	}
	var report string
	err = pool.QueryRow(ctx, "SELECT convert_from(report, 'UTF8') FROM reports").Scan(&report)
	if err != nil || report != "again" {
		t.Errorf("the report is %q, %v", report, err)
	}

	kept := &object{}
	server := httptest.NewServer(kept)
	t.Cleanup(server.Close)
	must("upload early", upload(ctx, server.URL, late, "early"))
	kept.before = func() { must("upload", upload(ctx, server.URL, next, "next")) }
	if err := upload(ctx, server.URL, late, "late"); !errors.Is(err, errLate) {
		t.Errorf("upload = %v, want it refused", err)
	}
	if kept.content != "next" || !kept.conflict {
		t.Errorf("the object is %q, refused by its version: %t", kept.content, kept.conflict)
	}
}
