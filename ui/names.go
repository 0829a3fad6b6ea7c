package ui

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/names"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// knownNames is what knows the names of actions and keys: the store, by the answers that its pages
// share.
type knownNames struct{ *asked }

// Stats are the counts that pages show.
func (k knownNames) Stats(ctx context.Context) (stint.Stats, error) { return k.stats.Get(ctx) }

// ListActors are the actors that pages show.
func (k knownNames) ListActors(ctx context.Context) ([]stint.ActorInfo, error) {
	return k.actors.Get(ctx)
}

// ListLimits are the limits that pages show, of these actions or of all; none where there are none.
func (k knownNames) ListLimits(
	ctx context.Context, actions ...string,
) ([]stint.ActionLimits, error) {
	if k.limits == nil {
		return nil, nil
	}
	all, err := k.limits.Get(ctx)
	if len(actions) > 0 {
		all = slices.DeleteFunc(slices.Clone(all), func(l stint.ActionLimits) bool {
			return !slices.Contains(actions, l.Action)
		})
	}
	return all, err
}

// ListSchedules are the schedules that pages show; none where they cannot be read: their page says
// why.
func (k knownNames) ListSchedules(
	ctx context.Context, _ ...string,
) ([]stint.ScheduleInfo, error) {
	if k.schedules == nil {
		return nil, nil
	}
	all, err := k.schedules.Get(ctx)
	if err != nil {
		return nil, nil //nolint:nilerr // as the comment says
	}
	return all, nil
}

// unknownNames says that nothing in the store has an action or, if there is one, a key of it. It
// says nothing if that cannot be found out.
func (h *Handler) unknownNames(r *request, action, key string) (said []show.Sentence) {
	ctx, store := r.Context(), knownNames{h.asked}
	found, err := names.UnknownActions(ctx, store, false, action)
	if err == nil && len(found) == 0 && key != "" {
		found, err = names.UnknownKeys(ctx, store, action, key)
	}
	if err != nil {
		return nil
	}
	part := ""
	if r.partly {
		part = " that you may see"
	}
	for _, u := range found {
		text := u.In(part)
		if !strings.HasSuffix(text, "?") {
			text += "."
		}
		said = append(said, show.Say(strings.ToUpper(text[:1])+text[1:]))
	}
	return said
}

// unknownNow is unknownNames with the store asked anew: what somebody has just inserted is known.
func (h *Handler) unknownNow(r *request, action, key string) []show.Sentence {
	h.asked.forgetNames()
	return h.unknownNames(r, action, key)
}

// doubtsOfFilter says what of a filter that found nothing is not known, or may be a slip.
func (h *Handler) doubtsOfFilter(r *request, action, key string) (said []show.Sentence) {
	if slip := names.Slip(key); slip != "" {
		said = append(said, show.Say("The key "+strconv.Quote(key)+" may be a slip: "+slip+"."))
		key = ""
	}
	if action != "" {
		said = append(said, h.unknownNames(r, action, key)...)
	}
	return said
}

// slipIn says that a name that somebody has typed is refused, and why; empty if it is not.
func slipIn(what, name string) string {
	slip := names.Slip(name)
	if slip == "" {
		return ""
	}
	return "The " + what + " " + strconv.Quote(name) + " is refused: " + slip + "."
}

// badName is the refusal of a form with such a name; nil if it has none.
func badName(what, name string) error {
	if slip := slipIn(what, name); slip != "" {
		return refuse.NotUnderstood(slip + " Nothing was changed.")
	}
	return nil
}
