package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// A file is one of an archive.
type file struct {
	name, from string
	executable bool
}

func (f file) mode() int64 {
	if f.executable {
		return 0o755
	}
	return 0o644
}

// within lists the files below a directory, in order, under names that begin with prefix.
func within(dir, prefix string) (files []file, err error) {
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files = append(files, file{name: prefix + filepath.ToSlash(name), from: path})
		return err
	})
	return files, err
}

// writeTar writes a packed archive that depends on the names, the texts and the time only.
func writeTar(path string, when time.Time, files []file) error {
	return create(path, func(w io.Writer) error {
		packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		return cmp.Or(writeFiles(packed, when, files), packed.Close())
	})
}

// writeFiles writes an archive that is not packed.
func writeFiles(w io.Writer, when time.Time, files []file) error {
	archive := tar.NewWriter(w)
	for _, f := range files {
		info, err := os.Stat(f.from)
		if err != nil {
			return err
		}
		err = archive.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Size: info.Size(), Mode: f.mode(),
			ModTime: when, Format: tar.FormatUSTAR,
		})
		if err := cmp.Or(err, copyFile(archive, f.from)); err != nil {
			return err
		}
	}
	return archive.Close()
}

// writeZip is writeTar for systems that have no tar.
func writeZip(path string, when time.Time, files []file) error {
	return create(path, func(w io.Writer) error {
		archive := zip.NewWriter(w)
		for _, f := range files {
			header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: when}
			header.SetMode(os.FileMode(f.mode())) //nolint:gosec // one of two constants
			to, err := archive.CreateHeader(header)
			if err != nil {
				return err
			}
			if err := copyFile(to, f.from); err != nil {
				return err
			}
		}
		return archive.Close()
	})
}

// writeGzip packs a file as Debian asks for, without its name and time.
func writeGzip(path, from string) error {
	return create(path, func(w io.Writer) error {
		packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		return cmp.Or(copyFile(packed, from), packed.Close())
	})
}

// repack writes an archive anew, in order and with one time for all files.
func repack(path string, when time.Time, work string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // it was only read
	packed, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	var files []file
	for archive := tar.NewReader(packed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		to := filepath.Join(work, filepath.FromSlash(filepath.Clean("/"+header.Name)))
		err = create(to, func(w io.Writer) error {
			_, err := io.Copy(w, archive)
			return err
		})
		if err != nil {
			return err
		}
		files = append(files, file{name: header.Name, from: to})
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	return writeTar(path, when, files)
}

// withoutTime takes the time at which it was made from a list of modules.
func withoutTime(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text = regexp.MustCompile(`(?m)^\s*"timestamp": "[^"]*",\n`).ReplaceAll(text, nil)
	return os.WriteFile(path, text, 0o644) //nolint:gosec // the caller has named it
}

// create writes a file, and the directories above it.
func create(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	to, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(to), to.Close())
}

func copyFile(w io.Writer, path string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, from)
	return errors.Join(err, from.Close())
}

func checksum(path string) ([]byte, error) {
	sum := sha256.New()
	err := copyFile(sum, path)
	return sum.Sum(nil), err
}
