//go:build unix

package programs

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestPerform_GivesTheBodyAndTakesResultAndLog(t *testing.T) {
	t.Parallel()
	d := newDirectory(t, map[string]string{"rev": `
		echo "task $STINT_TASK_ID, action $STINT_ACTION, try $STINT_TRY" >&2
		[ ${#STINT_TASK_TOKEN} = 36 ] || echo no token >&2
		cat "$STINT_INPUTS" >&2
		echo "$STINT_INPUTS" >&2
		cat; echo .`})
	body := strings.Repeat("\x00\xffbody\n", 100_000) // more than pipes hold
	info := perform(t, d, stint.Task{ID: "id/1", Action: "rev", Body: []byte(body)})
	if info.State != stint.StateCompleted || string(info.Result) != body+".\n" {
		t.Errorf("got %s with a result of %d bytes", info.State, len(info.Result))
	}
	log, path, _ := strings.Cut(info.Status, "[]\n")
	if log != "task id/1, action rev, try 1\n" {
		t.Errorf("status = %q", info.Status)
	}
	if _, err := os.Stat(strings.TrimSpace(path)); !os.IsNotExist(err) {
		t.Errorf("the inputs are still there: %v", err)
	}
}

// Proves G232.
func TestPerform_GivesHeadersInTheEnvironment(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDirectory(t, map[string]string{"env": `
		env | grep -E '^(STINT_HEADER_|TRACE|BAGGAGE)' | LC_ALL=C sort`})
	info := perform(t, d, stint.Task{ID: "a", Action: "env", Headers: map[string]string{
		"tenant-id": "acme; rm", "traceparent": "00-1", "tracestate": "", "path": "x",
	}})
	want := `STINT_HEADER_PATH=x
STINT_HEADER_TENANT_ID=acme; rm
STINT_HEADER_TRACEPARENT=00-1
STINT_HEADER_TRACESTATE=
TRACEPARENT=00-1
TRACESTATE=
`
	if string(info.Result) != want {
		t.Errorf("the program has\n%swant\n%s", info.Result, want)
	}
}

func TestPerform_NeedsNoReaderNorOutput(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDirectory(t, map[string]string{"true": "exit 0"})
	info := perform(t, d, stint.Task{ID: "a", Action: "true", Body: make([]byte, 1<<20)})
	if info.State != stint.StateCompleted || info.Result != nil || info.Status != "" {
		t.Errorf("got %+v, want it completed without anything", info)
	}
}

func TestPerform_JudgesByTheExitStatus(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, test := range []struct {
		script string
		cause  stint.AbortCause // after two tries
		tries  int
		status string
	}{
		{"exit 0", "", 1, ""},
		{"exit 65", stint.CauseReturned, 1, "exit status 65"},
		{"exit 75", stint.CauseTries, 2, "exit status 75"},
		{"echo no >&2; exit 3", stint.CauseTries, 2, "exit status 3\nno\n"},
		{"kill -9 $$", stint.CauseTries, 2, "signal: killed"},
		{"echo $STINT_TRY >&2; [ $STINT_TRY = 2 ]", "", 2, "2\n"},
	} {
		t.Run(test.script, func(t *testing.T) {
			t.Parallel()
			d := newDirectory(t, map[string]string{"a": test.script})
			info := perform(t, d, stint.Task{ID: "a", Action: "a", MaxTries: 2})
			if info.AbortCause != test.cause || info.Tries != test.tries ||
				info.Status != test.status {
				t.Errorf("got %+v, want cause %q, %d tries, status %q", info, test.cause,
					test.tries, test.status)
			}
		})
	}
}

func TestPerform_TriesAgainWhatCannotBeStarted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, spoil := range map[string]func(path string) error{
		"no such file":   os.Remove,
		"not executable": func(path string) error { return os.Chmod(path, 0o600) },
		"fork/exec":      func(path string) error { return os.WriteFile(path, nil, 0) },
		"not a regular file": func(path string) error {
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDirectory(t, map[string]string{"a": ""})
			if err := spoil(filepath.Join(d.path, "a")); err != nil {
				t.Fatal(err)
			}
			info := perform(t, d, stint.Task{ID: "a", Action: "a", MaxTries: 2})
			if info.AbortCause != stint.CauseTries || !strings.Contains(info.Status, name) {
				t.Errorf("got %+v, want its tries exhausted: %s", info, name)
			}
		})
	}
}

func TestPerform_SaysWhatIsWrongWithTheFirstLine(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for text, want := range map[string]string{
		"#!/bin/sh\r\necho hello\r\n":                 "CR and LF",
		"#!/bin/sh -e\r\ntrue\r\n":                    "CR and LF",
		"#!/usr/bin/env sh\r\nexit 0\r\n":             "CR and LF",
		"#! /bin/sh\r":                                "CR and LF",
		"\xef\xbb\xbf#!/bin/sh\nexit 1\n":             "byte order mark",
		"#!/nowhere/interpreter -x\ntrue\n":           `"/nowhere/interpreter"`,
		"#! \ntrue\n":                                 "names no interpreter",
		"#!/bin/sh\necho 'none of these\r'\nexit 9\n": "exit status 9",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			d := newDirectory(t, map[string]string{"a": ""})
			path := filepath.Join(d.path, "a")
			if err := os.WriteFile(path, []byte(text), 0); err != nil {
				t.Fatal(err)
			}
			info := perform(t, d, stint.Task{ID: "a", Action: "a", MaxTries: 1})
			first, _, _ := strings.Cut(info.Status, "\n")
			if info.AbortCause != stint.CauseTries || !strings.Contains(first, want) {
				t.Errorf("got %+v, want its status to say %q", info, want)
			}
			if want == "exit status 9" && first != want {
				t.Errorf("status = %q, want no word about the first line", first)
			}
		})
	}
}

func TestPerform_AbortsATaskWithTooMuchOutput(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDirectory(t, map[string]string{
		"over": "echo log >&2; yes", "fits": "printf 1234567890",
	})
	d.resultBytesMax = 10
	store := newStore(t)
	insert(t, store, stint.Task{ID: "over", Action: "over"}, stint.Task{ID: "fits", Action: "fits"})
	start(t, store, d)
	const want = "more on standard output than a result may have: 10 bytes\nlog\n"
	info := finish(t, store, "over")
	if info.AbortCause != stint.CauseReturned || info.Status != want || info.Result != nil {
		t.Errorf("got %+v, want it aborted with %q", info, want)
	}
	if info := finish(t, store, "fits"); string(info.Result) != "1234567890" {
		t.Errorf("got %+v, want what fits", info)
	}
}

func TestPerform_KeepsTheEndOfTheLog(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDirectory(t, map[string]string{"a": `
		i=0
		while [ $i -lt 30000 ]; do echo "line $i: é"; i=$((i + 1)); done >&2
		printf '\377\000 the end' >&2
		exit 65`})
	info := perform(t, d, stint.Task{ID: "a", Action: "a"})
	const first, last = "exit status 65\n", "line 29999: é\n\ufffd\ufffd the end"
	if !strings.HasPrefix(info.Status, first) || !strings.HasSuffix(info.Status, last) ||
		len(info.Status) > statusBytesMax || len(info.Status) < statusBytesMax-4 {
		t.Errorf("status of %d bytes: %.40q ... %q", len(info.Status), info.Status,
			info.Status[max(0, len(info.Status)-40):])
	}
}

func TestPerform_OffersTheInputs(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store,
		stint.Task{ID: "json", Action: "json"}, stint.Task{ID: "text", Action: "text"},
		stint.Task{ID: "bytes", Action: "bytes"}, stint.Task{ID: "none", Action: "none"},
		stint.Task{ID: "bad", Action: "bad"},
		stint.Task{
			ID: "end", Action: "end", OnAbort: stint.RunAnyway,
			After: []stint.TaskID{"json", "text", "bytes", "none", "bad"},
			Body: []byte(`{"list": [1.50, {"$result": "text"}, {"$result": "json"}, ` +
				`{"$result": "bytes"}, {"$result": "none"}, {"$result": "bad"}]}`),
		},
		stint.Task{
			ID: "lost", Action: "end", After: []stint.TaskID{"json"}, MaxTries: 2,
			Body: []byte(`{"$result": "text"}`),
		})
	start(t, store, newDirectory(t, map[string]string{
		"json": `echo '{"a": 10000000000000000001, "b": "<é>"}'; echo saved >&2`,
		"text": "echo hello", "bytes": `printf '\377'`, "none": "", "bad": "echo oh >&2; exit 65",
		"end": `cat; tr '{' '\n' <"$STINT_INPUTS" | sort`,
	}))
	const body = `{"list":[1.50,"hello\n",{"a":10000000000000000001,"b":"<é>"},` +
		`{"$base64":"/w=="},null,null]}`
	result := string(finish(t, store, "end").Result)
	if got, _, _ := strings.Cut(result, "\n"); got != body {
		t.Errorf("body = %s\nwant   %s", got, body)
	}
	for _, want := range []string{
		`"id":"json","status_code":"completed","status":"saved\n","result":`,
		`"a":10000000000000000001,"b":"<é>"}}`,
		`"id":"text","status_code":"completed","result":"hello\n"}`,
		`"$base64":"/w=="}}`, `"id":"none","status_code":"completed","result":null}`,
		`"id":"bad","status_code":"aborted","abort_cause":"returned",` +
			`"status":"exit status 65\noh\n","result":null}`,
	} {
		if !strings.Contains(result, want) {
			t.Errorf("inputs lack %s: %s", want, result)
		}
	}
	const lost = `body refers to the result of task "text", ` +
		`which is none of those that this one waited for`
	if info := finish(t, store, "lost"); info.AbortCause != stint.CauseTries ||
		info.Tries != 2 || info.Status != lost {
		t.Errorf("got %+v, want it tried twice, with %q", info, lost)
	}
}

// A task whose predecessors were all skipped is told of them, too.
func TestPerform_OffersSkippedInputs(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	insert(t, store,
		stint.Task{ID: "review", Action: "review"},
		stint.Task{ID: "publish", Action: "end", When: []stint.Condition{
			{After: "review", Results: []string{"yes"}},
		}},
		stint.Task{
			ID: "tell", Action: "end", Body: []byte(`[{"$result": "publish"}]`),
			When: []stint.Condition{
				{After: "publish", States: []stint.State{stint.StateSkipped}},
			},
		})
	start(t, store, newDirectory(t, map[string]string{
		"review": "printf no", "end": `cat; cat "$STINT_INPUTS"`,
	}))
	result := string(finish(t, store, "tell").Result)
	if !strings.HasPrefix(result, "[null]") ||
		!strings.Contains(result, `"id":"publish","status_code":"skipped"`) {
		t.Errorf("the program got %s", result)
	}
}

func TestResolve_LeavesOtherBodiesAlone(t *testing.T) {
	t.Parallel()
	inputs := []stint.Input{{ID: "a", Result: []byte("1")}}
	for _, body := range []string{
		"", `{"$result": "a"`, `{"$result": "a"} {}`, `{"$result": "a", "b": 1}`,
		`[ {"$result": 1} ]`, ` ["$result"] `, `{"b":1.0, "a":2}`,
	} {
		got, err := resolve([]byte(body), inputs)
		if err != nil || string(got) != body {
			t.Errorf("resolve(%s) = %s, %v", body, got, err)
		}
	}
	const body = `{"$result": "b"}`
	if got, err := resolve([]byte(body), nil); err != nil || string(got) != body {
		t.Errorf("resolve(%s) = %s, %v, where there are no inputs", body, got, err)
	}
}

// A small body that names a result many times makes no large one: its task is aborted.
func TestResolve_BoundsWhatReferencesMake(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const result, within = 1 << 20, resolvedBytesMax / (1 << 20)
	for _, of := range [][]byte{
		[]byte(`"` + strings.Repeat("x", result-len(`""`)) + `"`), // JSON
		[]byte(strings.Repeat("x", result)), bytes.Repeat([]byte{0xff}, result),
	} {
		inputs := []stint.Input{{ID: "a", Result: of}}
		body := func(n int) []byte {
			return []byte("[" + strings.Repeat(`{"$result":"a"},`, n-1) + `{"$result":"a"}]`)
		}
		if got, err := resolve(body(within/2), inputs); err != nil || len(got) < within/2*result {
			t.Errorf("resolve = %d bytes, %v", len(got), err)
		}
		if got, err := resolve(body(within+1), inputs); !errors.Is(err, errLargeBody) {
			t.Errorf("resolve = %d bytes, %v, want a refusal", len(got), err)
		}
	}
}

// Whatever a body and a result are, a body stays what it was, or is JSON with the result in it.
func FuzzResolve(f *testing.F) {
	f.Add([]byte(`[{"$result":"a"},1e999]`), []byte("1"))
	f.Add([]byte(`{"$result":"a"}`), []byte("\xff"))
	f.Add([]byte(`{"$result":"a","$result":"b"}`), []byte(nil))
	f.Fuzz(func(t *testing.T, body, result []byte) {
		got, err := resolve(body, []stint.Input{{ID: "a", Result: result}})
		if err == nil && !bytes.Equal(got, body) && !json.Valid(got) {
			t.Errorf("resolve(%q) with %q = %q", body, result, got)
		}
	})
}
