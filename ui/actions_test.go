package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui"
)

// Among thousands of actions one is found by a part of its name, and is there to choose from.
func TestActions_AreFoundByTyping(t *testing.T) {
	t.Parallel()
	h := ui.New(aFake{
		stats: func(context.Context) (stint.Stats, error) {
			var stats stint.Stats
			for i := range 3000 {
				stats.Actions = append(stats.Actions, stint.ActionStats{
					Action: fmt.Sprintf("action-%04d", i), Ready: 1,
				})
			}
			stats.Actions = append(stats.Actions, stint.ActionStats{Action: "zip.Invoices"})
			return stats, nil
		},
	}, ui.Options{})
	wantParts(t, text(t, h, "/actions"), "and 2,001 more: type a part of the name")
	page := text(t, h, "/actions?part=iNVoice")
	if n := strings.Count(page, "<tr data-key="); n != 1 {
		t.Errorf("%d actions are found", n)
	}
	wantParts(t, page, `<tr data-key="zip.Invoices">`, `value="iNVoice"`)
	wantParts(t, text(t, h, "/actions?part=none"), "No name contains none.")
	page = text(t, h, "/tasks?action=invoice")
	wantParts(t, page, `<option value="zip.Invoices">`, `href="actions?part=invoice"`)
	if n := strings.Count(page, `<option value="action-`); n > 500 {
		t.Errorf("%d actions are to choose from", n)
	}
	if r := get(t, h, "/actions?name=x"); r.StatusCode != http.StatusBadRequest {
		t.Errorf("an unknown parameter: %s", r.Status)
	}
}
