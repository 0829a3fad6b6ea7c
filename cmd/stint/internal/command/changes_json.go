package command

import (
	"time"

	"github.com/stint-tasks/stint"
)

// A changeJSON is a change as --json prints it.
type changeJSON struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Reason string    `json:"reason,omitzero"`
	Verb   string    `json:"verb"`
	Action string    `json:"action,omitzero"`
	Items  int       `json:"items"`
	Names  []string  `json:"names,omitempty"`
	Others int       `json:"others,omitzero"`
	Detail string    `json:"detail,omitzero"`
}

func newChangeJSON(c *stint.Change) changeJSON {
	return changeJSON{
		utc(c.At), c.By, c.Reason, c.Verb, c.Action, c.Items, c.Names, c.Others, c.Detail,
	}
}

func changesJSON(changed []stint.Change) []changeJSON {
	documents := make([]changeJSON, len(changed))
	for i := range changed {
		documents[i] = newChangeJSON(&changed[i])
	}
	return documents
}
