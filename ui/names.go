package ui

import (
	"strconv"
	"strings"

	"github.com/stint-tasks/stint/internal/names"
	"github.com/stint-tasks/stint/ui/internal/ask"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// unknownNames says that nothing in the store has an action or, if there is one, a key of it. It
// says nothing if that cannot be found out.
func (h *Handler) unknownNames(r *request, action, key string) (said []show.Sentence) {
	ctx, store := r.Context(), ask.Names{Store: h.asked}
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
	h.asked.ForgetNames()
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
