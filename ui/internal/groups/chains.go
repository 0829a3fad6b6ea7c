package groups

import "github.com/stint-tasks/stint/internal/layout"

// Chains are nodes that follow one another, each behind one and before one, with the same label.
// Every node is in one, most of them alone.
type chains Groups

// chainsOf finds the chains of a network.
func chainsOf(labels []string, edges []layout.Edge) *chains {
	before, after := neighbours(len(labels), edges)
	goesOn := func(node int) bool { // with the same chain
		if len(after[node]) != 1 {
			return false
		}
		next := after[node][0]
		return len(before[next]) == 1 && labels[next] == labels[node]
	}
	c := &chains{Of: make([]int, len(labels))}
	const none = -1
	for node := range c.Of {
		c.Of[node] = none
	}
	follow := func(node int) {
		for c.Of[node] == none {
			c.Of[node] = c.Count
			if goesOn(node) {
				node = after[node][0]
			}
		}
		c.Count++
	}
	for node := range labels {
		if len(before[node]) != 1 || !goesOn(before[node][0]) {
			follow(node)
		}
	}
	for node := range labels { // on a cycle, which only damaged tables can hold
		if c.Of[node] == none {
			follow(node)
		}
	}
	return c
}

// net is the network of the chains.
func (c *chains) net(labels []string, edges []layout.Edge) *net {
	joined := &Groups{Of: c.Of, Count: c.Count}
	joined.join(edges)
	ofChains := make([]string, c.Count)
	for chain, nodes := range joined.Nodes {
		ofChains[chain] = labels[nodes[0]]
	}
	return newNet(ofChains, joined.Edges)
}

// groups are the nodes of chains that were grouped.
func (c *chains) groups(ofChains *Groups, edges []layout.Edge) *Groups {
	return (&Groups{Of: c.Of, Count: c.Count}).as(ofChains.Of, edges)
}
