//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Nobody learns by a warning of a name that he may not read, and nobody who may change something is
// refused because he may not read what a warning needs.
// Proves G324.
func TestServe_WarnsOfNamesByWhatTheCallerMayRead(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabase(t)
	dir := t.TempDir()
	tokens, grants := filepath.Join(dir, "tokens"), filepath.Join(dir, "grants")
	who := map[string]string{
		"all": `[{verbs: [read, control, insert], actions: ["*"]}]`,
		"part": `[{verbs: [control, insert], actions: ["*"]}, ` +
			`{verbs: [read], actions: ["pay*"]}]`,
		"nothing": `[{verbs: [control, insert], actions: ["*"]}]`,
	}
	text, bearer := "", map[string]string{}
	for name, of := range who {
		text += name + ": " + of + "\n"
		bearer[name] = d.newToken(t, tokens, name)
		d.insert(t, stint.Task{Action: name + "-newsletter"}, stint.Task{Action: "pay-" + name})
	}
	write(t, grants, text)
	s := d.serve(t, "--tokens", tokens, "--grants", grants)
	asks := func(name string, args ...string) string {
		t.Helper()
		env := []string{"STINT_SERVER=" + s.address, "STINT_TOKEN=" + bearer[name]}
		return run(t, env, "", args...).wantExit(t, 0).stderr
	}
	says := func(stderr, part string, want bool) {
		t.Helper()
		if strings.Contains(stderr, part) != want {
			t.Errorf("standard error is %q; %q in it: %v", stderr, part, want)
		}
	}
	for name := range who {
		for _, line := range []string{
			"pause 1newsletter", "resume 2newsletter", "limit 3newsletter --concurrency 1",
			"limit 4newsletter --none", "weight 5newsletter k=2", "insert --action 6newsletter",
			"pause 7newsletter --key customer-one", "resume 8newsletter --key customer-two",
		} {
			if name == "nothing" && strings.Contains(line, "--concurrency") {
				continue // which reads the other limits first
			}
			known := name + "-newsletter"
			stderr := asks(name, strings.Fields(strings.ReplaceAll(line, "newsletter",
				"x"+known))...)
			warns := name != "nothing" && !strings.HasPrefix(line, "resume")
			insert := strings.HasPrefix(line, "insert")
			says(stderr, `"`+known+`"`, warns && name == "all")
			says(stderr, "warning", warns && (name == "all" || !insert))
			says(stderr, "that you may see", warns && name == "part" && !insert)
			if name == "nothing" && stderr != "" && !strings.HasPrefix(stderr, "inserted") {
				t.Errorf("stint %s as %s says %q", line, name, stderr)
			}
		}
		says(asks(name, "pause", "pay-"+name+"s"), `did you mean "pay-`+name+`"?`,
			name != "nothing")
	}
}
