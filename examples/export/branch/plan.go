package branch

import (
	"path"
	"slices"

	"github.com/stint-tasks/stint"
)

// successName is the object that says that all others below its prefix are in place.
const successName = "_SUCCESS"

// triesMax is how often a copy is tried. A worker that dies uses up a try as well.
const triesMax = 20

// planExport returns the tasks of an export: a copy or a delete for each object in which the
// destination differs from the commit, a _SUCCESS object for each prefix, and the manifest.
//
//   - A _SUCCESS waits for the objects below its prefix, and for those below a configured
//     sub-prefix by the _SUCCESS of that one. It is aborted with any of them.
//   - done-export waits for all of these. That a _SUCCESS waits for an object is not enough: it is
//     aborted with the first object that is, and done-export has to wait for the others too.
//   - The manifest waits for done-export. It may be written during the next export, which is no
//     matter, because its name is that of its own export.
func planExport(export body, tree Tree, found map[string]string, prefixes []string) []stint.Task {
	p := planner{export: export, waits: map[string][]stint.TaskID{}}
	for _, prefix := range prefixes {
		p.waits[prefix] = nil
	}
	for _, name := range sortedKeys(tree) {
		if object := tree[name]; found[name] != object.Sum {
			p.add(actionCopy, name, object.ID)
		}
	}
	for _, name := range sortedKeys(found) {
		_, wanted := tree[name]
		_, configured := p.waits[path.Dir(name)]
		if isSuccess := path.Base(name) == successName && configured; !wanted && !isSuccess {
			p.add(actionDelete, name, 0)
		}
	}
	// Longer prefixes first, so that the tasks are known that the shorter ones wait for.
	for _, prefix := range slices.Backward(sortedKeys(p.waits)) {
		p.add(actionSuccess, prefix, 0)
	}
	of := export
	of.Path = ""
	return append(p.tasks, stint.Task{
		ID: objectID(actionManifest, of), Action: actionManifest, Body: of.bytes(),
		After: []stint.TaskID{doneID(export.Branch)}, OnAbort: stint.RunAnyway,
	})
}

type planner struct {
	export body
	tasks  []stint.Task
	// waits are, by prefix, the tasks that its _SUCCESS waits for.
	waits map[string][]stint.TaskID
}

func (p *planner) add(action, name string, object int64) {
	of := p.export
	of.Path, of.Object = name, object
	task := stint.Task{
		ID: objectID(action, of), Action: action, Body: of.bytes(),
		Priority: priorityCopy, MaxTries: triesMax,
		ToSignalAfter: []stint.TaskID{doneID(of.Branch)},
	}
	if action == actionSuccess {
		task.Priority, task.After = prioritySuccess, p.waits[name]
	}
	p.tasks = append(p.tasks, task)
	// The nearest configured prefix above waits for it.
	for prefix := path.Dir(name); prefix != "."; prefix = path.Dir(prefix) {
		if _, configured := p.waits[prefix]; configured {
			p.waits[prefix] = append(p.waits[prefix], task.ID)
			break
		}
	}
}
