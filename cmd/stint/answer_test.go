//go:build unix

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestAnswer_EndsAnExternalTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	key := stint.NewAnswerKey()
	db.insert(t, stint.Task{ID: "ask", Action: stint.External},
		stint.Task{ID: "keyed", Action: stint.External, AnswerKey: key},
		stint.Task{ID: "secret", Action: stint.External, AnswerKey: key},
		stint.Task{ID: "no", Action: stint.External},
		stint.Task{ID: "ship", Action: "ship", After: []stint.TaskID{"ask", "keyed"}})
	asked := db.run(t, "", "explain", "ask").wantExit(t, 0)
	asked.wantOutput(t, "\"ask\" is ready: it waits for an answer from outside")
	if strings.Contains(asked.stdout, "nobody has asked") { // as nobody ever does
		t.Errorf("explain says %s", asked.stdout)
	}
	db.run(t, "", "answer", "ask", "--completed", "--status", "fine", "--result", "42", "--by",
		"ann").wantExit(t, 0).wantOutput(t, "completed\n")
	db.run(t, "", "answer", "ask", "--completed").wantExit(t, 6, "finished")
	db.run(t, "", "answer", "keyed", "--completed").wantExit(t, 6, "keyed")
	db.run(t, "", "answer", "keyed", "--completed", "--key", string(key), "--json").
		wantExit(t, 0).wantOutput(t, `{"code":"completed","id":"keyed"}`)
	secret := append(slices.Clone(db.env), "STINT_ANSWER_KEY="+string(key))
	run(t, secret, "", "answer", "secret", "--completed", "--key", string(stint.NewAnswerKey())).
		wantExit(t, 6, "secret") // the flag wins
	run(t, secret, "", "answer", "secret", "--completed").wantExit(t, 0).
		wantOutput(t, "completed\n")
	run(t, secret, "", "answer", "no", "--aborted").wantExit(t, 6, "no")
	db.run(t, "", "answer", "no", "--aborted", "--status", "sorry").wantExit(t, 0)
	db.run(t, "", "answer", "none", "--aborted").wantExit(t, 3)
	db.run(t, "", "answer", "ship", "--completed").wantExit(t, 2, "stint.External")
	for id, want := range map[string]string{
		"ask": "completed|fine|42|ann", "keyed": "completed|||", "no": "aborted|sorry||",
		"secret": "completed|||", "ship": "ready|||",
	} {
		got := db.get(t, stint.TaskID(id))
		actor := string(got.Actor)
		if id != "ask" { // whoever runs the test
			actor = ""
		}
		if text := string(got.State) + "|" + got.Status + "|" + string(got.Result) + "|" +
			actor; text != want {
			t.Errorf("%s is %s, want %s", id, text, want)
		}
	}
	for _, wrong := range [][]string{
		{"answer"},
		{"answer", "a"},
		{"answer", "a", "--completed", "--aborted"},
		{"answer", "a", "--completed", "--result", "1", "--result-file", "f"},
		{"answer", "a", "--completed", "--result-file", "none"},
		{"answer", "a", "--completed", "--key", "short"},
	} {
		db.run(t, "", wrong...).wantExit(t, 2)
	}
}
