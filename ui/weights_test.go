package ui_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/ui"
)

// Where keys take turns, the weight of a key is set by a form, which tells slips and what is not
// known.
func TestChange_SetsTheWeightOfAKey(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, stores := bothStores(t)
	insert(t, store, stint.Task{ID: "a", Action: "mail", Key: "customer-one"})
	page := "/action?name=mail"
	for _, shown := range stores {
		h := ui.New(shown, open())
		wantNil(t, store.SetLimits(t.Context(), "mail", stint.Limits{Concurrency: 9}))
		if strings.Contains(text(t, h, page), `value="weigh"`) {
			t.Error("weights are offered where keys do not take turns")
		}
		wantNil(t, store.SetLimits(t.Context(), "mail", stint.Limits{Fair: true}))
		h = ui.New(shown, open())
		form := previewOf(t, h, formWith(t, text(t, h, page), "weigh"))
		for _, wrong := range []string{"0", "1001", "many", "1.5"} {
			wantParts(t, previewOf(t, h, fillIn(t, form), "typed", "customer-one", "weight", wrong),
				"The weight must be a whole number from 1 to 1,000.", `value="`+wrong+`"`,
				`value="customer-one"`)
		}
		response := send(t, h, fillIn(t, form), "typed", "customer-one ", "weight", "3")
		if content := body(t, response); response.StatusCode != http.StatusBadRequest ||
			!strings.Contains(content, "it ends with a blank") {
			t.Errorf("a slip: %s\n%s", response.Status, content)
		}
		wantParts(t, previewOf(t, h, fillIn(t, form), "typed", "customer-oen", "weight", "3"),
			"did you mean &#34;customer-one&#34;?")
		preview := previewOf(t, h, fillIn(t, form), "typed", "customer-one", "weight", "3")
		wantParts(t, preview, "Set the weight of the key customer-one of mail to 3?",
			"It is 1 now.")
		if n := len(limitsOf(t, store, "mail").Weights); n > 0 {
			t.Errorf("the preview has set %d weights", n)
		}
		wantParts(t, agree(t, h, preview), "Set the weight of the key customer-one of ")
		if got := limitsOf(t, store, "mail").Weights["customer-one"]; got != 3 {
			t.Errorf("the weight is %d", got)
		}
		wantParts(t, previewOf(t, h, fillIn(t, form), "typed", "customer-one", "weight", "1"),
			"It is 3 now.")
		wantNil(t, store.SetLimits(t.Context(), "mail", stint.Limits{}))
		wantParts(t, previewOf(t, h, fillIn(t, form), "typed", "customer-one", "weight", "1"),
			"until its limits say so, weights have no effect")
		wantNil(t, store.SetWeights(t.Context(), "mail", map[string]int{"customer-one": 1}))
	}
}
