package waiters

import (
	"maps"
	"slices"
	"sync"
)

// Keyed are the calls that wait for tasks, by key. Somebody looks at the tasks whenever Wake is
// sent to, as long as there are such calls. The zero value is ready for use after Prepare.
type Keyed[W any] struct {
	// Wake is sent to when there may be something to look at.
	Wake chan struct{}

	mutex   sync.Mutex
	waiters map[int64]map[*W]bool
	// woken are the keys of tasks that may have finished.
	woken   map[int64]bool
	running bool
}

// Prepare makes it ready for use.
func (k *Keyed[W]) Prepare() {
	k.Wake = make(chan struct{}, 1)
	k.waiters, k.woken = map[int64]map[*W]bool{}, map[int64]bool{}
}

// Join makes calls wait. Their tasks are looked at once more, since they may have finished before
// anybody was told that somebody waits. If nobody looks, start has to see to that, and Join reports
// whether somebody does.
func (k *Keyed[W]) Join(joining []*W, key func(*W) int64, start func() bool) bool {
	if len(joining) == 0 {
		return true
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, w := range joining {
		key := key(w)
		if k.waiters[key] == nil {
			k.waiters[key] = map[*W]bool{}
		}
		k.waiters[key][w] = true
		k.woken[key] = true
	}
	k.wake()
	k.running = k.running || start()
	return k.running
}

func (k *Keyed[W]) wake() {
	select {
	case k.Wake <- struct{}{}:
	default:
	}
}

// Leave forgets calls, also those that have had their outcome.
func (k *Keyed[W]) Leave(leaving []*W, key func(*W) int64) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, w := range leaving {
		key := key(w)
		delete(k.waiters[key], w)
		if len(k.waiters[key]) == 0 {
			delete(k.waiters, key)
			delete(k.woken, key)
		}
	}
}

// Woken tells that tasks may have finished.
func (k *Keyed[W]) Woken(keys []int64) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, key := range keys {
		if len(k.waiters[key]) > 0 {
			k.woken[key] = true
		}
	}
	if len(k.woken) > 0 {
		k.wake()
	}
}

// WokenAny tells that any task may have finished.
func (k *Keyed[W]) WokenAny() {
	k.mutex.Lock()
	keys := slices.Collect(maps.Keys(k.waiters))
	k.mutex.Unlock()
	k.Woken(keys)
}

// Take returns the tasks to look at, and whether to go on: the caller, who looks, stops if nobody
// waits.
func (k *Keyed[W]) Take() (keys []int64, goesOn bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	keys = slices.Sorted(maps.Keys(k.woken))
	clear(k.woken)
	k.running = len(k.waiters) > 0
	return keys, k.running
}

// Each calls visit with each call that waits for a task. Those for which it returns true wait no
// more.
func (k *Keyed[W]) Each(key int64, visit func(*W) (done bool)) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for w := range k.waiters[key] {
		if visit(w) {
			delete(k.waiters[key], w)
		}
	}
	if len(k.waiters[key]) == 0 {
		delete(k.waiters, key)
	}
}

// Count returns how many tasks are waited for.
func (k *Keyed[W]) Count() int {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return len(k.waiters)
}
