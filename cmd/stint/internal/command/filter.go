package command

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/headers"
	"github.com/stint-tasks/stint/internal/jsonpath"
)

// filterFlags are the flags by which sub-commands choose tasks.
type filterFlags struct {
	actions, states      []string
	headers              []string
	key, prefix, actor   string
	body, message        string
	olderThan, newerThan age
	// names are the names of the flags. More is another one, if there is one.
	names []string
	more  *bool
}

func (f *filterFlags) add(p *program, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.actions, "action", nil, "only tasks with this `action` (repeatable)")
	flags.StringSliceVar(&f.states, "state", nil,
		"only tasks in these `states`: "+strings.Join(stateNames(), ", "))
	flags.StringVar(&f.key, "key", "", "only tasks with this `key`")
	flags.StringArrayVar(&f.headers, "header", nil,
		"only tasks with this header, a `name=value` (repeatable: with all of them)")
	flags.StringVar(&f.prefix, "prefix", "", "only tasks whose IDs begin with this `text`")
	flags.StringVar(&f.actor, "actor", "", "only tasks that this `actor` owns, or owned last")
	flags.StringVar(&f.body, "body", "",
		"only tasks whose bodies are JSON with this `path`, or for which this condition holds")
	flags.StringVar(&f.message, "message", "",
		"only tasks whose status contains this `text`, in any letter case")
	flags.Var(&f.olderThan, "older-than",
		"only tasks inserted at least this `age` ago, such as 90m, 36h, 7d")
	flags.Var(&f.newerThan, "newer-than", "only tasks inserted at most this `age` ago")
	completeBy(cmd, "action", p.actions)
	completeBy(cmd, "state", stateList)
	completeBy(cmd, "prefix", p.taskIDs)
	completeBy(cmd, "actor", p.actorNames)
	f.names = append(f.names, "action", "state", "key", "header", "prefix", "actor", "body",
		"message", "older-than", "newer-than")
}

// given reports whether the user has given any of the flags.
func (f *filterFlags) given(cmd *cobra.Command) bool {
	return slices.ContainsFunc(f.names, cmd.Flags().Changed) || f.more != nil && *f.more
}

// filter returns what the flags say. A flag that is given must say something: an empty value, as of
// a variable that is not set, would pick all tasks.
func (f *filterFlags) filter(cmd *cobra.Command) (stint.Filter, error) {
	for name, empty := range map[string]bool{
		"key": f.key == "", "prefix": f.prefix == "", "actor": f.actor == "", "body": f.body == "",
		"message": f.message == "", "state": len(f.states) == 0, "newer-than": f.newerThan.ago == 0,
	} {
		if empty && cmd.Flags().Changed(name) {
			return stint.Filter{}, said(errInput, "invalid --%s: it is empty", name)
		}
	}
	filter := stint.Filter{
		Actions: f.actions, Key: f.key, IDPrefix: f.prefix, Actor: stint.ActorID(f.actor),
		Body: f.body, Status: f.message, MinAge: f.olderThan.ago, MaxAge: f.newerThan.ago,
	}
	if f.body != "" {
		if _, err := jsonpath.Parse(f.body); err != nil {
			return filter, said(errInput, "invalid --body: it %v", err)
		}
	}
	var err error
	if filter.Headers, err = readHeaders(f.headers); err != nil {
		return filter, err
	}
	for _, state := range f.states {
		if !slices.Contains(stateNames(), state) {
			return filter, said(errInput, "invalid --state %q: must be one of %s", state,
				strings.Join(stateNames(), ", "))
		}
		filter.States = append(filter.States, stint.State(state))
	}
	return filter, checkNames("action", filter.Actions...)
}

// readHeaders reads headers that were given as name=value.
func readHeaders(given []string) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil //nolint:nilnil // as a task has none
	}
	read := make(map[string]string, len(given))
	for _, text := range given {
		name, value, ok := strings.Cut(text, "=")
		if _, twice := read[name]; !ok || !headers.IsName(name) || twice {
			return nil, said(errInput, "invalid --header %.80q: must be name=value, with a name "+
				"of a-z, 0-9 and -, each once", text)
		}
		read[name] = value
	}
	return read, nil
}

func stateNames() []string {
	var names []string
	for _, state := range []stint.State{
		stint.StateBlocked, stint.StateScheduled, stint.StateReady, stint.StateInProgress,
		stint.StateCompleted, stint.StateAborted, stint.StateSkipped,
	} {
		names = append(names, string(state))
	}
	return names
}

// stateList offers the states that a list may go on with.
func stateList(
	_ *cobra.Command, _ []string, begun string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	given, last := "", begun
	if comma := strings.LastIndex(begun, ","); comma >= 0 {
		given, last = begun[:comma+1], begun[comma+1:]
	}
	var offered []cobra.Completion
	for _, state := range stateNames() {
		if strings.HasPrefix(state, last) && !slices.Contains(strings.Split(given, ","), state) {
			offered = append(offered, given+state)
		}
	}
	return offered, cobra.ShellCompDirectiveNoFileComp
}
