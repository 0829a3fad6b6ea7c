package groups

import (
	"strings"

	"github.com/stint-tasks/stint/internal/layout"
)

// CommonPrefix is what all texts begin with, cut behind a separator such as the slash between the
// parts of an ID, or between a word and a number.
func CommonPrefix(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	prefix := texts[0]
	for _, text := range texts[1:] {
		n := 0
		for n < len(prefix) && n < len(text) && prefix[n] == text[n] {
			n++
		}
		prefix = prefix[:n]
	}
	if len(texts) == 1 {
		return prefix
	}
	return prefix[:strings.LastIndexAny(prefix, "/:@.-_ ")+1]
}

// Near returns the nodes that are at most so many edges before or behind a node, itself included,
// the nearest first, and at most so many of them. Cut says that some were left out by that.
func Near(node, nodes int, edges []layout.Edge, distance, most int) (near []int, cut bool) {
	before, after := neighbours(nodes, edges)
	seen := map[int]bool{node: true}
	near = []int{node}
	// Before the node only its predecessors count, and behind it only its dependents: their other
	// relations have little to do with it.
	ahead, behind := []int{node}, []int{node}
	for range distance {
		ahead, behind = step(ahead, before, seen), step(behind, after, seen)
		near = append(append(near, ahead...), behind...)
	}
	if len(near) > most {
		return near[:most], true
	}
	return near, false
}

// step returns the nodes next to some that were not seen before.
func step(from []int, next [][]int, seen map[int]bool) []int {
	var found []int
	for _, node := range from {
		for _, other := range next[node] {
			if !seen[other] {
				seen[other] = true
				found = append(found, other)
			}
		}
	}
	return found
}
