package graphs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// A box has room for so many letters, and for few counts; its title has everything.
func TestNewBox_ShortensWhatHasNoRoom(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		actions []string
		isChain bool
		want    string
	}{
		{[]string{"mail"}, false, "mail × 7,000"},
		{[]string{"mail"}, true, "chain of 7,000 mail"},
		{[]string{"a-very-long-action-of-a-film"}, false, "a-very-lo…of-a-film × 7,000"},
		{[]string{"mail", "file"}, false, "mail, file × 7,000"},
		{[]string{"develop", "retouch", "print"}, false, "develop, +2 × 7,000"},
		{[]string{stint.Spontaneous}, false, "spontaneous × 7,000"},
	} {
		var tasks []stint.TaskInfo
		for i := range 7000 {
			tasks = append(tasks, stint.TaskInfo{
				ID: stint.TaskID(fmt.Sprint("x/", i)), Action: test.actions[i%len(test.actions)],
				State: show.States()[i%len(show.States())],
			})
		}
		b := newBox(tasks, test.isChain)
		if b.Name != test.want || len([]rune(b.Name)) > lettersMax {
			t.Errorf("the box of %q is named %q, want %q", test.actions, b.Name, test.want)
		}
		last := b.States[len(b.States)-1]
		if len(b.States) != 3 || b.State != stint.StateAborted || last.Text != "1,000…" {
			t.Errorf("the counts are %+v", b.States)
		}
		for _, state := range show.States() {
			if !strings.Contains(b.Title, "\n1,000 "+show.StateName(state)) {
				t.Errorf("the title does not count what is %s: %s", state, b.Title)
			}
		}
	}
}
