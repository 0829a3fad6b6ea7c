package branch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/stint-tasks/stint"
)

// The actions.
const (
	actionNext     = "next-export"
	actionStart    = "start-export"
	actionCopy     = "copy"
	actionDelete   = "delete"
	actionSuccess  = "success"
	actionManifest = "manifest"
)

// These IDs are well known: of each there is one task for a branch at any time.
func nextID(branch string) stint.TaskID  { return stint.TaskID("next-export-" + branch) }
func startID(branch string) stint.TaskID { return stint.TaskID("start-export-" + branch) }
func doneID(branch string) stint.TaskID  { return stint.TaskID("done-export-" + branch) }

// objectID names a task of one export. The number of the export makes it unique, since no branch
// has a slash in its name.
func objectID(action string, of body) stint.TaskID {
	const idBytesMax = 512 // What the store allows.
	id := fmt.Sprintf("%s-%s/%d/%s", action, of.Branch, of.Export, of.Path)
	if len(id) <= idBytesMax && utf8.ValidString(id) {
		return stint.TaskID(id)
	}
	sum := sha256.Sum256([]byte(of.Path))
	return stint.TaskID(fmt.Sprintf("%s-%s/%d//%s",
		action, of.Branch, of.Export, hex.EncodeToString(sum[:])))
}

// The priorities. What a whole branch waits for goes first. Without that a next-export that is
// replaced again and again, and so is always the youngest task, would wait for ever behind the
// copies of other branches.
const (
	priorityCopy    = 0
	prioritySuccess = 1
	priorityCycle   = 2
)

// A body holds the parameters of a task, as JSON.
type body struct {
	Branch  string `json:"branch"`
	Request int64  `json:"request,omitempty"` // of next-export
	Export  int64  `json:"export,omitempty"`  // of all the others
	Commit  int64  `json:"commit,omitempty"`
	Fence   string `json:"fence,omitempty"`  // of the export, in the destination
	Path    string `json:"path,omitempty"`   // of an object or a prefix
	Object  int64  `json:"object,omitempty"` // what to copy
}

func (b body) bytes() []byte {
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // Strings and numbers can be encoded.
	}
	return text
}
