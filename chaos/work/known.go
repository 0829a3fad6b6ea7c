package work

import (
	"math/rand/v2"
	"sync"

	"github.com/stint-tasks/stint"
)

// knownMax is how many tasks a process remembers of those that it has inserted.
const knownMax = 2000

// known are the latest tasks that a process has inserted, to be changed or waited for.
type known struct {
	mutex sync.Mutex
	ids   []stint.TaskID // a ring
	next  int
}

func (k *known) add(tasks []stint.Task) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for i := range tasks {
		if len(k.ids) < knownMax {
			k.ids = append(k.ids, tasks[i].ID)
			continue
		}
		k.ids[k.next] = tasks[i].ID
		k.next = (k.next + 1) % knownMax
	}
}

// pick picks some of the latest tasks; none if there are none.
func (k *known) pick(r *rand.Rand, most int) []stint.TaskID {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if len(k.ids) == 0 {
		return nil
	}
	var picked []stint.TaskID
	for range 1 + r.IntN(most) {
		// The later, the likelier: most of the others have ended.
		back := r.IntN(1 + r.IntN(len(k.ids)))
		i := ((k.next-1-back)%len(k.ids) + len(k.ids)) % len(k.ids)
		picked = append(picked, k.ids[i])
	}
	return picked
}
