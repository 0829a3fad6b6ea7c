//go:build unix

package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// emptyTexts are the texts of a page that say that there is nothing of something.
func emptyTexts(page string) (texts []string) {
	_, main, _ := strings.Cut(page, "<main")
	main, _, _ = strings.Cut(main, "</main>")
	empty := regexp.MustCompile(`^(No|None|Nothing|It stands alone|It depends on no|Both are)\b`)
	exact := []string{ // of what the page shows all of
		"None so far", "None in the last", "none is ready", "No answer",
	}
	for _, found := range regexp.MustCompile(`>([^<>]+)<`).FindAllStringSubmatch(main, -1) {
		text := strings.TrimSpace(found[1])
		isExact := func(known string) bool { return strings.HasPrefix(text, known) }
		if (empty.MatchString(text) || strings.HasPrefix(text, "none")) &&
			!slices.ContainsFunc(exact, isExact) {
			texts = append(texts, text)
		}
	}
	return texts
}

// Whatever a principal may read, no page says that there is nothing where something may be hidden:
// it says that it shows what the principal may see. To those who may read everything it says how
// things are.
//
// Proves G311.
func TestServe_SaysWhatIsHidden(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabase(t)
	d.insert(t,
		stint.Task{ID: "mail/1", Action: "mail", Body: []byte("dear ann")},
		stint.Task{ID: "pay/1", Action: "pay", Body: []byte("ten euros")},
		stint.Task{ID: "pay/2", Action: "pay", After: []stint.TaskID{"mail/1"}},
		stint.Task{ID: "sms/1", Action: "sms"},
		stint.Task{ID: "approve/1", Action: stint.External})
	d.run(t, "", "limit", "pay", "--concurrency", "3").wantExit(t, 0)
	d.run(t, "", "schedule", "put", "--name", "nightly", "--spec", "0 3 * * *",
		"--action", "pay").
		wantExit(t, 0)
	d.run(t, "", "abort", "sms/1", "--by", "ann").wantExit(t, 0)
	dir := t.TempDir()
	tokens, grants := filepath.Join(dir, "tokens"), filepath.Join(dir, "grants")
	who := map[string]string{
		"root":   `[{verbs: [read, read-bodies], actions: ["*"]}]`,
		"reader": `[{verbs: [read], actions: ["*"]}, {verbs: [read-bodies], actions: ["pay"]}]`,
		"none":   `[{verbs: [read], actions: ["nothing"]}]`,
		"mailer": `[{verbs: [read], actions: ["mail"]}, {verbs: [read-bodies], actions: ["x"]}]`,
		"some":   `[{verbs: [read-bodies], actions: ["mail*"], ids: ["mail/*"]}]`,
		"by-id":  `[{verbs: [read], actions: ["*"], ids: ["mail/*"]}]`,
		"worker": `[{verbs: [own, control, insert], actions: ["*"]}, ` +
			`{verbs: [read], actions: [x]}]`,
	}
	text, bearer := "", map[string]string{}
	for name, of := range who {
		text += name + ": " + of + "\n"
		bearer[name] = d.newToken(t, tokens, name)
	}
	write(t, grants, text)
	s := d.serve(t, "--tokens", tokens, "--grants", grants)
	for name, token := range bearer {
		all := name == "root" || name == "reader"
		for _, page := range []string{
			"", "problems", "tasks", "tasks?prefix=x", "tasks?action=mail", "waiting", "actions",
			"actors", "limits", "schedules", "changes", "changes?action=mail",
			"changes?id=mail/1", "check",
			"task?id=mail/1", "task?id=approve/1", "action?name=mail", "action?name=pay",
			"network?id=mail/1",
		} {
			code, got, _ := s.page(t, token, "/ui/"+page)
			if code == http.StatusNotFound && !all && !strings.Contains(got, "that you may see") {
				t.Errorf("%s of %s says that there is none:\n%s", page, name, got)
			}
			if code != http.StatusOK {
				continue // which says that it is not for everybody to see
			}
			if strings.Contains(got, "You may not see all tasks") == all {
				t.Errorf("%s of %s says otherwise who may see it:\n%s", page, name, got)
			}
			for _, text := range emptyTexts(got) {
				if !all && !strings.Contains(text, "may see") &&
					!strings.Contains(text, "for you to see") {
					t.Errorf("%s of %s says %q", page, name, text)
				}
				if all && strings.Contains(text, "may see") {
					t.Errorf("%s of %s says %q", page, name, text)
				}
			}
		}
	}
	wantBodiesHidden(t, s, bearer)
	wantHiddenSaid(t, d, s, bearer)
	s.stop(t)
}

// wantBodiesHidden checks that pages say so of the bodies that somebody may not see.
func wantBodiesHidden(t *testing.T, s *server, bearer map[string]string) {
	t.Helper()
	for name, hides := range map[string]bool{
		"root": false, "reader": true, "mailer": true, "some": false, "by-id": true,
	} {
		_, got, _ := s.page(t, bearer[name], "/ui/task?id=mail/1")
		said := strings.Contains(got, "You may not see them.")
		if said != hides || strings.Contains(got, "dear ann") == hides ||
			strings.Contains(got, "Both are empty") {
			t.Errorf("the body of mail/1 for %s:\n%s", name, got)
		}
		code, value, _ := s.page(t, bearer[name], "/ui/value?id=mail/1&of=body")
		if (code == http.StatusForbidden) != hides {
			t.Errorf("the body as a file for %s: %d %q", name, code, value)
		}
	}
}

// wantHiddenSaid checks that the command says the same.
func wantHiddenSaid(t *testing.T, d *database, s *server, bearer map[string]string) {
	t.Helper()
	as := func(name string) []string {
		file := filepath.Join(t.TempDir(), name)
		write(t, file, bearer[name])
		return []string{"--server", s.address, "--token-file", file}
	}
	d.run(t, "", append(as("reader"), "show", "mail/1")...).
		wantOutput(t, "body and result", "you may not see them")
	d.run(t, "", append(as("reader"), "show", "mail/1", "--json")...).wantOutput(t, `"hidden":true`)
	d.run(t, "", append(as("reader"), "show", "pay/1")...).wantOutput(t, "ten euros")
	for _, args := range []string{"stats", "actors", "limits", "schedule ls", "errors", "ls"} {
		got := d.run(t, "", append(as("none"), strings.Fields(args)...)...)
		if said := fmt.Sprint(got.stderr, got.stdout); !strings.Contains(said, "that you may see") {
			t.Errorf("stint %s says %q", args, said)
		}
	}
	top := startOnTerminal(t, d.env, append(as("none"), "top")...)
	top.waitFor(t, "no tasks that you may see")
	top.press(t, "q")
	top.wantExit(t, 0)
}

// Whoever loses a grant sees nothing any more by it, once the file of grants is read, which is a
// second later at the latest: not even what pages have kept.
//
// Proves G312.
func TestServe_ShowsNothingByAGrantThatIsGone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabase(t)
	d.insert(t,
		stint.Task{ID: "mail/1", Action: "mail", Body: []byte("dear ann")},
		stint.Task{ID: "pay/1", Action: "pay", Body: []byte("ten euros")})
	dir := t.TempDir()
	tokens, grants := filepath.Join(dir, "tokens"), filepath.Join(dir, "grants")
	write(t, grants, `ann: [{verbs: [read-bodies], actions: ["*"]}]`)
	ann := d.newToken(t, tokens, "ann")
	s := d.serve(t, "--tokens", tokens, "--grants", grants)
	pages := []string{"task?id=mail/1", "tasks", "actions", "network?id=mail/1", ""}
	for _, page := range pages {
		if code, text, _ := s.page(t, ann, "/ui/"+page); code != http.StatusOK {
			t.Fatalf("%s: %d\n%s", page, code, text)
		}
	}
	// She still reads bodies, of other tasks.
	write(t, grants,
		`ann: [{verbs: [read-bodies], actions: [pay]}, {verbs: [read], actions: ["*"]}]`)
	eventually(t, "the new grants", func() bool {
		code, _, _ := s.page(t, ann, "/ui/value?id=mail/1&of=body")
		return code == http.StatusForbidden
	})
	_, text, _ := s.page(t, ann, "/ui/task?id=mail/1")
	if strings.Contains(text, "dear ann") || !strings.Contains(text, "You may not see them.") {
		t.Errorf("the page still has the body:\n%s", text)
	}
	if _, text, _ = s.page(t, ann, "/ui/task?id=pay/1"); !strings.Contains(text, "ten euros") {
		t.Errorf("the page lacks the other body:\n%s", text)
	}
	write(t, grants, `ann: [{verbs: [read], actions: [pay]}]`)
	eventually(t, "the new grants", func() bool {
		code, _, _ := s.page(t, ann, "/ui/task?id=mail/1")
		return code == http.StatusNotFound
	})
	for _, page := range pages {
		if _, text, _ := s.page(t, ann, "/ui/"+page); strings.Contains(
			text, ">mail<") {
			t.Errorf("%s still tells of mail:\n%s", page, text)
		}
	}
	s.stop(t)
}
