package command

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/jobimport"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

// A typedName is a place of the command where a person types an action or a key.
type typedName struct {
	place string // an argument or a flag, as namePlaces has them; with a note behind a colon
	line  string // the command line, with NAME in it
	input string // what is on standard input, with NAME in it
	// kept says that a slip is taken, and told: programs may have used the name, and by this it is
	// looked for or undone, or a program has written the input.
	kept bool
	// fresh says that names which nothing has are as good as others: those of new tasks. Those that
	// nearly are another action are told; of keys, none.
	fresh, key bool
	paused     bool // it is about what is paused
	onDatabase bool // a service has no such command
	onShards   bool // so do shards
	fails      bool // it fails here, for another reason
}

// slips are names with a slip in them, for one that has none.
func slips(name string) []string {
	return []string{
		" " + name, name + " ", name + "\t", "\n" + name, "\u00a0" + name, name + "\u2003",
		name[:1] + "\u00a0" + name[1:], name[:1] + "\x1b" + name[1:], name + "\u200b",
		"\ufeff" + name, name[:1] + "\u00ad" + name[1:], name + "\u202e", name + "\u3164",
		name[:1] + "\u200d" + name[1:],
	}
}

// typedNames are all places where names are typed.
func typedNames() []typedName {
	all := []typedName{
		{place: "pause ACTION", line: "pause NAME"},
		{place: "pause --key", line: "pause keyed --key NAME", key: true},
		{place: "resume ACTION", line: "resume NAME", kept: true, paused: true},
		{
			place: "resume --key", line: "resume keyed --key NAME", kept: true, paused: true,
			key: true,
		},
		{place: "limit ACTION", line: "limit NAME --concurrency 3"},
		{place: "limit ACTION: none", line: "limit NAME --none", kept: true},
		{place: "limits ACTION", line: "limits NAME", kept: true},
		{place: "weight ACTION", line: "weight NAME customer=3"},
		{place: "weight KEY", line: "weight keyed NAME=3", key: true},
		{place: "insert --action", line: "insert --action NAME", fresh: true},
		{
			place: "insert --key", line: "insert --action keyed --key NAME", fresh: true, key: true,
		},
		{
			place: "insert: a document", line: "insert", input: `{"action": NAME}`,
			kept: true, fresh: true,
		},
		{
			place: "debounce --action", fresh: true,
			line: "debounce d1 --action NAME --quiet 1h --at-most 2h",
		},
		{
			place: "debounce --key", fresh: true, key: true,
			line: "debounce d2 --action keyed --key NAME --quiet 1h --at-most 2h",
		},
		{
			place: "submit: a document", line: "submit", kept: true, fresh: true, onShards: true,
			input: `[{"task_id": {"shard": "eu", "id": NAME}, "method": NAME, "args": []}]`,
		},
		{
			place: "schedule put --action", fresh: true,
			line: "schedule put --name s --spec @daily --action NAME",
		},
		{
			place: "schedule put: a document", line: "schedule put", kept: true, fresh: true,
			input: `{"name": "t", "spec": "@daily", "tasks": [{"action": NAME}]}`,
		},
	}
	all = append(all, typedForOthers()...)
	for _, cmd := range (&program{}).root().Commands() {
		if destroys[cmd.Name()] != asked || cmd.Flags().Lookup("key") == nil {
			continue
		}
		verb, more := cmd.Name(), ""
		if verb == "change" {
			more = " --start-now"
		}
		all = append(all,
			typedName{
				place: verb + " --action", kept: true,
				line: verb + " --dry-run --action NAME" + more,
			},
			typedName{
				place: verb + " --key", kept: true, key: true,
				line: verb + " --dry-run --action keyed --key NAME" + more,
			})
	}
	for _, source := range jobimport.Sources {
		all = append(all, typedName{
			place: "import " + source.Name + " --action",
			fresh: true, onDatabase: true, fails: true,
			line: "import " + source.Name + " --dry-run --action kind=NAME",
		})
	}
	return all
}

// typedForOthers are the places of sub-commands that insert nothing and change no limits.
func typedForOthers() []typedName {
	return []typedName{
		{place: "worker --action", line: "worker --action NAME", fresh: true},
		{place: "changes --action", line: "changes --action NAME", kept: true},
		{place: "ends --action", line: "ends --action NAME", kept: true},
		{place: "ls --action", line: "ls --action NAME", kept: true, onShards: true},
		{
			place: "ls --key", line: "ls --action keyed --key NAME", kept: true, key: true,
			onShards: true,
		},
		{
			place: "change --set-key", line: "change keyed/1 --set-key NAME", fresh: true,
			key: true,
		},
	}
}

// namePlaces are the arguments and the flags of all sub-commands that are actions or keys.
func namePlaces() (places []string) {
	argument := regexp.MustCompile(`\b(ACTION|KEY)\b`)
	isName := regexp.MustCompile(`^(.*-)?(action|key)s?$`)
	others := map[string]bool{ // keys of other kinds, and numbers
		"answer --key": true, "serve --tls-key": true, "serve --peer-key": true,
		"serve --jwt-keys": true, "limit --per-key": true, "limit --rate-per-key": true,
		"limit --burst-per-key": true,
	}
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), "stint ")
		for _, found := range argument.FindAllString(cmd.Use, -1) {
			places = append(places, path+" "+found)
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
			place := path + " --" + flag.Name
			if isName.MatchString(flag.Name) && !others[place] && !cmd.Hidden {
				places = append(places, place)
			}
		})
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look((&program{}).root())
	return places
}

// Each place where an action or a key is typed is tried.
func TestNames_AreTriedWhereverTheyAreTyped(t *testing.T) {
	t.Parallel()
	tried := map[string]bool{}
	for _, typed := range typedNames() {
		place, _, _ := strings.Cut(typed.place, ":")
		tried[place] = true
	}
	places := namePlaces()
	if len(places) < len(typedNames())/2 {
		t.Fatalf("only these places were found: %q", places)
	}
	for _, place := range places {
		if !tried[place] {
			t.Errorf("a name is typed at %q: add it to typedNames, with what becomes of a slip",
				place)
		}
	}
}

// run runs the command line with a name, at a place that flags name.
func (n *typedName) run(
	t *testing.T, dir, name string, flags ...string,
) (code int, stdout, stderr string) {
	t.Helper()
	var args []string
	for _, word := range strings.Fields(n.line) {
		args = append(args, strings.ReplaceAll(word, "NAME", name))
	}
	input := strings.ReplaceAll(n.input, "NAME", strconv.Quote(name))
	args = append(args, flags...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	var errs processes.Buffer
	if strings.HasPrefix(n.line, "worker") {
		args = append(args, "--dir", dir)
		watched := func(p []byte) (int, error) {
			if bytes.Contains(p, []byte("worker starts")) {
				cancel()
			}
			return errs.Write(p)
		}
		return Run(ctx, args, strings.NewReader(input), &out, writer(watched)), out.String(),
			errs.String()
	}
	code = Run(ctx, args, strings.NewReader(input), &out, &errs)
	return code, out.String(), errs.String()
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// A slip in a name that somebody types is refused, in words that show it, before any database is
// asked; where something is looked for or undone, and in what programs may have written, it is
// told.
func TestNames_SlipsAreRefusedBeforeTheDatabaseIsAsked(t *testing.T) {
	t.Parallel()
	for _, typed := range typedNames() {
		if typed.kept {
			continue
		}
		for _, name := range slips("mail") {
			code, stdout, stderr := typed.run(t, t.TempDir(), name, "--database-url",
				"postgres://127.0.0.1:1/none")
			quoted := strconv.Quote(name)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, quoted+": it ") {
				t.Errorf("%s %q: exit code %d, %q", typed.place, name, code, stderr)
			}
		}
	}
}

// A namedStore is a store where each of typedNames finds a name of its own, so that what one leaves
// is not near what the next one types.
type namedStore struct {
	dir   string // with programs
	flags []string
}

// letters are those of the name of a place: two of them, five times each.
func letters(i int) string {
	const half, times = 13, 5
	first, second := string(rune('a'+i%half)), string(rune('n'+i/half))
	return strings.Repeat(first, times) + strings.Repeat(second, times)
}

func newNamed(t *testing.T, stores ...*stint.Store) *namedStore {
	t.Helper()
	programs := map[string]string{}
	for i, typed := range typedNames() {
		known := letters(i)
		task := stint.Task{ID: stint.TaskID("known/" + known), Action: known, Key: "customer"}
		if typed.key {
			task.Action, task.Key = "keyed", known
		}
		store := stores[i%len(stores)]
		ctx := t.Context()
		errs := []error{store.InsertTasks(ctx, []stint.Task{task})}
		switch {
		case typed.paused && typed.key:
			errs = append(errs, store.PauseKeys(ctx, "keyed", known))
		case typed.paused:
			errs = append(errs, store.Pause(ctx, known))
		}
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{known, known[1:], unheard(i)} {
			programs[name] = "exit 0"
		}
	}
	for _, store := range stores {
		err := store.InsertTasks(t.Context(), []stint.Task{{ID: "keyed/1", Action: "keyed"}})
		if err != nil {
			t.Fatal(err)
		}
	}
	return &namedStore{dir: processes.Write(t, programs)}
}

// unheard is a name that is near no other.
func unheard(i int) string { return "unheard-of-" + letters(i) }

// try types names at a place: one that nothing has, but something nearly; one that is near nothing;
// and one that something has.
func (n *namedStore) try(t *testing.T, i int, typed *typedName) {
	t.Helper()
	known := letters(i)
	meant := "did you mean " + strconv.Quote(known) + "?"
	none := strconv.Quote(unheard(i))
	if typed.paused {
		none = unheard(i) + " was not paused"
	}
	run := func(name string) string {
		t.Helper()
		code, stdout, stderr := typed.run(t, n.dir, name, n.flags...)
		if code != exitDone && !typed.fails {
			t.Errorf("%s %q: exit code %d, %s", typed.place, name, code, stderr)
		}
		if strings.Contains(stdout, "warning") || strings.Contains(stdout, "did you mean") {
			t.Errorf("%s %q: standard output is %q", typed.place, name, stdout)
		}
		return stderr
	}
	says := func(stderr, what string, want bool) {
		t.Helper()
		if strings.Contains(strings.ReplaceAll(stderr, `\"`, `"`), what) != want {
			t.Errorf("%s: standard error is %q; %q in it: %v", typed.place, stderr, what, want)
		}
	}
	if typed.kept {
		slip := "\u00a0" + known
		stderr := run(slip)
		if typed.fresh {
			says(stderr, strconv.Quote(slip)+" may be a slip: it begins with a blank", true)
		} else if !typed.key || typed.paused {
			says(stderr, meant, true)
		} else {
			says(stderr, "it begins with a blank", true)
		}
	}
	says(run(known[1:]), meant, !typed.fresh || !typed.key)
	says(run(unheard(i)), none, !typed.fresh)
	stderr := run(known)
	says(stderr, "warning", false)
	says(stderr, "did you mean", false)
	says(stderr, "was not paused", false)
}

// Whoever types an action or a key that nothing in the store has is told so on standard error, and
// which one he may have meant; it is done as it was said, and standard output is as without. Of new
// tasks only what nearly is another action is told.
// Proves G324.
func TestNames_ThatNothingHasAreTold(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	direct := newNamedStore(t, pool)
	remote := testdb.New(t)
	served := newNamedStore(t, remote)
	address, _ := testservice.Start(t, remote, served, service.Options{})
	eu, us := testdb.New(t), testdb.New(t)
	places := map[string]*namedStore{
		"database": newNamed(t, direct), "service": newNamed(t, served),
		"shards": newNamed(t, newNamedStore(t, eu), newNamedStore(t, us)),
	}
	places["database"].flags = []string{"--database-url", testdb.URL(pool)}
	places["service"].flags = []string{"--server", address}
	places["shards"].flags = []string{
		"--topology", "static:eu=" + testdb.URL(eu) + ",us=" + testdb.URL(us),
	}
	for where, place := range places {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			for i, typed := range typedNames() {
				switch {
				case where == "service" && typed.onDatabase, where == "shards" && !typed.onShards:
				case runtime.GOOS == "windows" && strings.HasPrefix(typed.line, "worker"):
				default:
					place.try(t, i, &typed)
				}
			}
		})
	}
}

func newNamedStore(t *testing.T, pool *pgxpool.Pool) *stint.Store {
	t.Helper()
	store, err := stint.New(pool, stint.Options{
		Maintenance: stint.MaintainNever, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close(context.WithoutCancel(t.Context())) })
	return store
}
