//nolint:paralleltest // the tests share a browser, which shows one page at a time
package browsertest

import (
	"testing"

	"github.com/stint-tasks/stint"
)

// Whoever types a key to pause with a blank behind it is refused, and of one that nothing has he is
// told which he may have meant, before anything is paused.
func TestChanges_TellSlipsInATypedKey(t *testing.T) {
	s := newScene(t)
	wantNil(t, s.store.InsertTasks(t.Context(), []stint.Task{
		{ID: "typed/1", Action: "typed", Key: "customer-one"},
	}))
	tab := open(t, look{})
	for typed, said := range map[string]string{
		"customer-one ": `The key "customer-one " is refused: it ends with a blank.`,
		"customer-oen":  `did you mean "customer-one"?`,
	} {
		tab.visit(s.url + "/action?name=typed")
		const form = `document.querySelector("main form:has([name=typed])")`
		tab.fill(form, "typed", typed)
		tab.run(form + `.querySelector("button").click()`)
		tab.arrive("/preview")
		tab.await(`document.querySelector("main").innerText.includes(` + quoted(said) + `)`)
	}
	limits, err := s.store.ListLimits(t.Context(), "typed")
	wantNil(t, err)
	if len(limits) > 0 {
		t.Errorf("something is paused: %+v", limits)
	}
}
