package worker

import (
	"sync"

	"github.com/stint-tasks/stint"
)

// unbegunTasks are owned tasks that have not begun and are being given back. Their leases are
// extended as those of performances are.
type unbegunTasks struct {
	mutex sync.Mutex
	tasks map[stint.Token]stint.OwnedTask
}

func (u *unbegunTasks) add(owned []stint.OwnedTask) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if u.tasks == nil {
		u.tasks = map[stint.Token]stint.OwnedTask{}
	}
	for _, task := range owned {
		task.Body = nil
		u.tasks[task.Token] = task
	}
}

func (u *unbegunTasks) drop(token stint.Token) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	delete(u.tasks, token)
}

// behind returns them behind others.
func (u *unbegunTasks) behind(others []stint.OwnedTask) []stint.OwnedTask {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	for _, task := range u.tasks {
		others = append(others, task)
	}
	return others
}
