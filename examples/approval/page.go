package main

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
)

// page asks the person. To open a link must change nothing, since programs that look for viruses
// open links in mails: only the buttons answer.
const page = `<!doctype html>
<title>Approve a purchase</title>
<h1>Shall we order?</h1>
<form method="post" action="/answer">
  <input type="hidden" name="id" value="{{.Get "id"}}">
  <input type="hidden" name="key" value="{{.Get "key"}}">
  <p><input name="status" placeholder="A word about it"></p>
  <button name="code" value="completed">Yes</button>
  <button name="code" value="aborted">No</button>
</form>
`

// pages has the page behind the link, and takes its answers.
func pages(answers http.Handler) http.Handler {
	asked := template.Must(template.New("page").Parse(page))
	mux := http.NewServeMux()
	mux.Handle("/answer", answers)
	mux.HandleFunc("GET /approve", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Referrer-Policy", "no-referrer") // the key is in the address
		_ = asked.Execute(w, r.URL.Query())              // the person may be gone
	})
	return mux
}

// approve does what a person does: looks at the page, and presses a button. A second press comes
// too late.
func approve(
	ctx context.Context, store *stint.Store, base string, query url.Values, stdout io.Writer,
) error {
	for { // the link is printed by then
		found, err := store.GetTasks(ctx, []stint.TaskID{prepared})
		if err != nil {
			return err
		}
		if !found[0].FinishedAt.IsZero() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	why, err := store.Explain(ctx, approved)
	if err != nil {
		return err
	}
	text, _, _ := strings.Cut(why.String(), ", until")
	fmt.Fprintln(stdout, text)
	query.Set("code", string(stint.StatusCompleted))
	query.Set("status", "go ahead")
	for range 2 {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/answer",
			strings.NewReader(query.Encode()))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		if err := response.Body.Close(); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "pressed Yes: %s\n", response.Status)
	}
	return nil
}
