package ui_test

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui"
)

// Pages are compressed for their own site alone, and none that holds bodies, so that nobody learns
// from a length what they hold.
func TestPages_AreCompressedWhereThatTellsNothing(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "mail"})
	h := ui.New(store, ui.Options{})
	style := ""
	for _, link := range parse(t, text(t, h, "/")).links {
		if strings.HasSuffix(link, ".css") {
			style = "/" + link
		}
	}
	for _, c := range []struct {
		page, accepts, from string
		want                bool
	}{
		{"/tasks", "gzip, deflate, br", "same-origin", true},
		{"/tasks", "br;q=1, gzip;q=0.5", "none", true},
		{"/tasks", "gzip;q=0", "none", false},
		{"/tasks", "br", "none", false},
		{"/tasks", "gzip", "cross-site", false},
		{"/tasks", "gzip", "same-site", false},
		{"/tasks", "gzip", "", false},
		{"/task?id=a", "gzip", "same-origin", false},
		{style, "gzip", "", true},
	} {
		response := get(t, h, c.page, "Accept-Encoding", c.accepts, "Sec-Fetch-Site", c.from)
		is := response.Header.Get("Content-Encoding") == "gzip"
		if response.StatusCode != http.StatusOK || is != c.want {
			t.Errorf("%+v: %s, compressed: %v", c, response.Status, is)
		}
		if !is {
			continue
		}
		plain := body(t, get(t, h, c.page))
		reader, err := gzip.NewReader(response.Body)
		wantNil(t, err)
		content, err := io.ReadAll(reader)
		wantNil(t, err)
		if len(content) != len(plain) && c.page == style {
			t.Errorf("%+v: %d bytes, not %d", c, len(content), len(plain))
		}
	}
}

// A page for which the store gave no answer tries again by itself, but a form does not.
func TestPages_TryAgain(t *testing.T) {
	t.Parallel()
	h := ui.New(aFake{
		stats: func(context.Context) (stint.Stats, error) {
			return stint.Stats{}, context.DeadlineExceeded
		},
	}, ui.Options{})
	response := get(t, h, "/actions")
	if response.StatusCode != http.StatusGatewayTimeout || response.Header.Get("Refresh") != "5" {
		t.Errorf("%s, with %v", response.Status, response.Header)
	}
	wantParts(t, body(t, response), "This page tries again after 5 seconds.")
	if response = get(t, h, "/none"); response.Header.Get("Refresh") != "" {
		t.Error("a page that does not exist tries again")
	}
}
