package service

import (
	"slices"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service/access"
)

// hideOthers leaves out how many tasks a change has reached that it did not name: some may be such
// as the caller must not learn of.
func (a *asking) hideOthers(all ...*stintv1.Affected) {
	for _, affected := range all {
		if affected != nil && a.restricted() {
			affected.Others = 0
		}
	}
}

// trimVerdicts leaves out whether there is a task of an ID whose token is refused: the verdict is
// that on a wrong token of a task.
func (a *asking) trimVerdicts(verdicts []*stintv1.Verdict) {
	err := stint.ErrInvalidToken
	if a.promptly {
		err = stint.ErrBusy
	}
	for i, verdict := range verdicts {
		if of := verdict.GetError(); of.GetAlso() != "" && a.restricted() {
			wrong := &stint.TaskError{IDs: wire.ToIDs(of.GetIds()), Err: err}
			verdicts[i] = wire.FromVerdicts([]error{wrong})[0]
		}
	}
}

// trimExplained leaves out other tasks than those that the principal may see, and counts of tasks
// with the action unless it may see all of these.
func (a *asking) trimExplained(r *stintv1.ExplainTaskResponse) {
	r.WaitsFor, r.BecauseOf = a.seen(r.GetWaitsFor()), a.seen(r.GetBecauseOf())
	if a.principal.MayList(access.Read, []string{r.GetTask().GetAction()}, "") {
		return
	}
	if r.GetStart() != nil {
		r.Start = &stintv1.Start{Unknown: "you may not see the other tasks of its action"}
	}
	limits := r.GetLimits()
	if limits == nil {
		return
	}
	limits.Hidden = true
	limits.InProgress, limits.KeyInProgress = 0, 0
	limits.Owned, limits.KeyOwned = nil, nil
	limits.KeyWaiting, limits.KeyWaitingOrMore, limits.TurnsAhead = 0, false, 0
	limits.NextAt, limits.KeyNextAt, limits.Tokens, limits.KeyTokens = nil, nil, 0, 0
}

// trimStats leaves the counts of actions all of whose tasks the principal may see. Whether a count
// is an estimate depends on the other tasks, too: so it is told that all may be.
func (a *asking) trimStats(r *stintv1.GetStatsResponse) {
	if !a.restricted() {
		return
	}
	r.Actions = slices.DeleteFunc(r.GetActions(), func(s *stintv1.ActionStats) bool {
		return !a.principal.MayList(access.Read, []string{s.GetAction()}, "")
	})
	r.PruningBehind, r.Estimated, r.EstimatedAt = nil, nil, nil
	for state := range (stint.ActionStats{}).ByState() {
		r.Estimated = append(r.Estimated, string(state))
	}
}

// mayGetMinutes returns an error unless the principal may see all tasks that the minutes count.
func (a *asking) mayGetMinutes(r *stintv1.GetMinutesRequest) error {
	if err := a.has(access.Read); err != nil || !a.restricted() {
		return err
	}
	action := r.GetAction()
	if action == "" || !a.principal.MayList(access.Read, []string{action}, "") {
		return a.mayNot("%s all tasks of action %q", access.Read, action)
	}
	return nil
}

// problemsMax is how many problems of each kind are looked through for those of a principal who may
// not see them all.
const problemsMax = 1000

// mayListProblems lets a principal that may not see all tasks have those of its problems that are
// among the first of all.
func (a *asking) mayListProblems(r *stintv1.ListProblemsRequest) error {
	if a.restricted() && r.GetLimit() > 0 && r.GetLimit() <= problemsMax {
		a.most, r.Limit = int(r.GetLimit()), problemsMax
	}
	return a.has(access.Read)
}

func (a *asking) trimProblems(r *stintv1.ListProblemsResponse) {
	if !a.restricted() {
		return
	}
	for _, kind := range []*[]*stintv1.TaskInfo{&r.Slow, &r.Failing, &r.Failed, &r.Unwatched} {
		*kind = a.seen(*kind)
		if a.most > 0 && len(*kind) > a.most {
			*kind = (*kind)[:a.most]
		}
	}
	r.ErrorsCut = true // whether it is so depends on the other tasks, too
	// A group may have tasks that the caller may not read by their IDs.
	r.Errors = slices.DeleteFunc(r.GetErrors(), func(e *stintv1.ErrorGroup) bool {
		return !a.principal.MayList(access.Read, []string{e.GetAction()}, "")
	})
}
