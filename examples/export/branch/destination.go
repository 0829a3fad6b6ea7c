package branch

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// A destination is the directory of a branch. There are in it:
//
//	data/                  the objects
//	manifests/             a file for each export
//	.export-{n}-{random}/  what export n has not put in place yet
//
// The last one is a fence. A worker that was held up may wake up long after its task has passed to
// somebody else and the export has ended; no token keeps it from writing to a file. But all that
// changes an object is one rename, into or out of the fence, whose name is in the body of the task;
// and the next export begins by removing it. From then on the renames of export n fail, also one
// that has already found the directory: nothing moves into or out of a directory that was removed.
// (That is why it is not enough to give the directory another name. With an object store, it would
// be a condition on the write.)
//
// Nobody can make that fence again. The start-export that made the tasks made it before they were
// there; one that is late makes another fence, which no task knows, and its commit is refused.
//
// Two workers that perform the same task of the same export, because one of them is late, do no
// harm to each other: they do the same.
type destination struct{ root *os.Root }

const (
	dataDir     = "data"
	manifestDir = "manifests"
	dirMode     = 0o755
)

// errLate reports that a later export has begun, so that the task must have ended.
var errLate = errors.New("a later export has begun, or the destination was removed")

// makeDestination makes the directory of a branch unless it is there: in full or not at all. The
// caller has locked the branch.
func (e *Exporter) makeDestination(branch string) error {
	place := filepath.Join(e.dir, branch)
	if _, err := os.Stat(place); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	part := filepath.Join(e.dir, ".new-"+rand.Text())
	for _, dir := range []string{dataDir, manifestDir} {
		if err := os.MkdirAll(filepath.Join(part, dir), dirMode); err != nil {
			return err
		}
	}
	return os.Rename(part, place)
}

func (e *Exporter) openDestination(branch string) (*destination, error) {
	root, err := os.OpenRoot(filepath.Join(e.dir, branch))
	if err != nil {
		return nil, err
	}
	return &destination{root}, nil
}

func (d *destination) close() { _ = d.root.Close() }

// begin shuts out the earlier exports, and returns the fence of this one. If it is called again, by
// another owner of the task, that gets a fence of its own.
func (d *destination) begin(export int64) (fence string, err error) {
	const fences = ".export-%d-"
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		earlier := export
		_, err := fmt.Sscanf(entry.Name(), fences, &earlier)
		if err != nil || earlier >= export {
			continue
		}
		// If somebody is just writing into it, this fails and is tried again.
		if err := d.root.RemoveAll(entry.Name()); err != nil {
			return "", err
		}
	}
	fence = fmt.Sprintf(fences, export) + rand.Text()
	return fence, d.root.Mkdir(fence, dirMode)
}

// put puts an object in place: all of it or nothing. It survives the death of the program; to be
// safe from a power failure as well, call Sync before the rename.
func (d *destination) put(fence, name string, content []byte) error {
	place := filepath.Join(dataDir, filepath.FromSlash(name))
	if err := d.root.MkdirAll(filepath.Dir(place), dirMode); err != nil {
		return err
	}
	return d.rename(filepath.Join(fence, rand.Text()), place, content)
}

// rename writes a new file and then gives it its name.
func (d *destination) rename(part, place string, content []byte) error {
	const mode = 0o644
	err := d.root.WriteFile(part, content, mode)
	if err == nil {
		err = d.root.Rename(part, place)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return errLate
	}
	if err != nil {
		_ = d.root.Remove(part) // Or the next export does.
	}
	return err
}

// remove deletes an object, by a rename as well, and leaves its directory.
func (d *destination) remove(fence, name string) error {
	place := filepath.Join(dataDir, filepath.FromSlash(name))
	part := filepath.Join(fence, rand.Text())
	err := d.root.Rename(place, part)
	if err == nil {
		err = d.root.Remove(part)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// One of the two is missing: the object, since an earlier try has removed it, or the fence.
	if _, err := d.root.Stat(fence); err != nil {
		return errLate
	}
	return nil
}

func (d *destination) putManifest(export int64, content []byte) error {
	name := fmt.Sprintf("%d.json", export)
	part := filepath.Join(manifestDir, "."+rand.Text())
	return d.rename(part, filepath.Join(manifestDir, name), content)
}

func (d *destination) readManifest(export int64) ([]byte, error) {
	return d.root.ReadFile(filepath.Join(manifestDir, fmt.Sprintf("%d.json", export)))
}

// list returns the hashes of the objects by their paths.
func (d *destination) list() (map[string]string, error) {
	found := map[string]string{}
	err := fs.WalkDir(d.root.FS(), dataDir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := d.root.ReadFile(name)
		if err != nil {
			return err
		}
		found[strings.TrimPrefix(path.Clean(name), dataDir+"/")] = sumOf(content)
		return nil
	})
	return found, err
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
