package branch

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
)

// What follows makes up the commits of the demonstration.

// GeneratedPrefixes are those of GeneratedTree.
func GeneratedPrefixes() []string {
	return []string{"logs", "tables", "tables/orders", "tables/users"}
}

// GeneratedTree is what the first commit of a branch adds, unless there are files to begin with.
func GeneratedTree() []Change {
	const objects = 6 // Below each prefix.
	tree := []Change{{"README", []byte("generated\n")}}
	for _, prefix := range GeneratedPrefixes() {
		for n := range objects {
			name := fmt.Sprintf("%s/part-%02d", prefix, n)
			tree = append(tree, Change{name, content(name)})
		}
	}
	return tree
}

// ReadTree reads a few small files of a directory to begin with, and their prefixes.
func ReadTree(from fs.FS) (tree []Change, prefixes []string, err error) {
	const filesMax, bytesMax, depthMax = 50, 64 << 10, 2
	err = fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil || info.Size() > bytesMax {
			return err
		}
		content, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		tree = append(tree, Change{name, append([]byte{}, content...)})
		if len(tree) == filesMax {
			return fs.SkipAll
		}
		return nil
	})
	for _, file := range tree {
		parts := []string{}
		for dir := path.Dir(file.Path); dir != "."; dir = path.Dir(dir) {
			parts = append(parts, dir)
		}
		slices.Reverse(parts)
		prefixes = append(prefixes, parts[:min(len(parts), depthMax)]...)
	}
	slices.Sort(prefixes)
	return tree, slices.Compact(prefixes), err
}

// RandomChanges are those of a later commit: it adds, changes and deletes some objects.
func RandomChanges(head int64, tree Tree) []Change {
	const changed, deletedMax = 3, 2
	names := sortedKeys(tree)
	rand.Shuffle(len(names), func(i, j int) { //nolint:gosec // no secret
		names[i], names[j] = names[j], names[i]
	})
	commit := fmt.Sprintf("commit-%03d", head+1)
	added := commit
	if len(names) > 0 {
		added = path.Join(path.Dir(names[0]), commit)
	}
	changes := []Change{{added, content(added)}}
	several := changed + rand.N(deletedMax+1) //nolint:gosec // no secret
	for i, name := range names[:min(several, len(names))] {
		if i < changed {
			changes = append(changes, Change{name, content(name + " of " + commit)})
		} else {
			changes = append(changes, Change{Path: name})
		}
	}
	return changes
}

// content is some kilobytes that nothing else has.
func content(of string) []byte {
	const linesMax = 200
	number, lines := rand.Uint64(), 1+rand.N(linesMax) //nolint:gosec // no secret
	return bytes.Repeat(fmt.Appendf(nil, "%s %x\n", of, number), lines)
}
