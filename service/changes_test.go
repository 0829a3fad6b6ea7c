package service_test

import (
	"fmt"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Proves G227.
func TestListChanges_NamesTheCallerAndTellsWhatHeMayRead(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := startGuarded(t)
	r.reason = "why: 100 %"
	r.author = "ann"
	must := func(by, procedure, request string) map[string]any {
		t.Helper()
		code, answer := r.as(by).post(t, "TaskService/"+procedure, request)
		if code != 200 {
			t.Fatalf("%s = %d %v", procedure, code, answer)
		}
		return answer
	}
	told := func(by, request string) string {
		t.Helper()
		var lines string
		found, _ := must(by, "ListChanges", request)["changes"].([]any)
		for _, one := range found {
			c, _ := one.(map[string]any)
			lines += fmt.Sprint(c["verb"], " ", c["items"], " ", c["names"], " ", c["others"],
				" by ", c["by"], ": ", c["reason"], "\n")
		}
		return lines
	}
	must("root", "AbortTasks", `{"ids":["shop/mail","other/mail","shop/ship"]}`)
	must("shop", "RetryTasks", `{"ids":["shop/mail"]}`)
	must("root", "DeleteTasks", `{"ids":["shop/ship"]}`)
	must("root", "DeleteTasks", `{"ids":["shop/bills"],"dry_run":true}`)
	const retried = "RetryTasks 1 [shop/mail] <nil> by shop for ann: why: 100 %\n"
	aborted := func(others string) string {
		return "AbortTasks 2 [other/mail shop/mail] " + others +
			" by root for ann: why: 100 %\n"
	}
	const shipAborted = "AbortTasks 1 [shop/ship] <nil> by root for ann: why: 100 %\n"
	const shipDeleted = "DeleteTasks 1 [shop/ship] <nil> by root for ann: why: 100 %\n"
	for _, c := range []struct{ by, request, want string }{
		{"root", `{"id":"shop/mail"}`, retried + aborted("1")},
		{"root", `{"id":"shop/ship"}`, shipDeleted + shipAborted},
		{"root", `{"actions":["ship"]}`, shipDeleted + shipAborted},
		{
			"shop", `{"id":"shop/mail"}`,
			retried + "AbortTasks 1 [shop/mail] <nil> by root for ann: why: 100 %\n",
		},
		{"shop", `{"id":"shop/ship"}`, ""},
		{"shop", `{"id":"shop/none"}`, ""},
		{"reader", `{}`, retried + aborted("<nil>")},
	} {
		if got := told(c.by, c.request); got != c.want {
			t.Errorf("%s is told for %s\n%s\nwant\n%s", c.by, c.request, got, c.want)
		}
	}
	r.author = "root" // the caller himself
	must("root", "Pause", `{"actions":["pack"]}`)
	if got := told("root", `{"actions":["pack"]}`); got !=
		"Pause 1 <nil> <nil> by root: why: 100 %\n" {
		t.Errorf("the pause: %s", got)
	}
	r.reason, r.author = "", ""
	must("root", "Pause", `{"actions":["other"]}`)
	if got := told("root", `{"actions":["other"]}`); got != "" {
		t.Errorf("without a reason: %s", got)
	}
}
