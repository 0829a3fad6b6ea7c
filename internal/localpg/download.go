//go:build unix && !aix && !solaris

package localpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

const (
	downloadedPrefix = "postgresql-"
	unfinishedPrefix = "unfinished-"
)

// repository is the address of a Maven repository that has the programs.
type repository string

const mavenCentral repository = "https://repo1.maven.org/maven2"

// download fetches the programs through embedded-postgres, which verifies their checksum. That
// library cannot be interrupted: when ctx ends, download returns, and the transfer goes on in the
// background until it is done or the process exits.
func (r repository) download(
	ctx context.Context, cache, major string, announce announcer,
) (string, error) {
	version, err := downloadable(major)
	if err != nil {
		return "", err
	}
	if err := makeOpenDirs(cache); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(cache, "download.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	err = poll(ctx, func() (bool, error) { return tryLock(lock, syscall.LOCK_EX) })
	if err != nil {
		return "", errors.Join(err, lock.Close())
	}
	home := filepath.Join(cache, downloadedPrefix+string(version))
	done := make(chan error, 1)
	go func() {
		done <- errors.Join(r.extract(version, cache, home, announce), unlock(lock))
	}()
	select {
	case err := <-done:
		return filepath.Join(home, "bin"), err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// downloadable returns the release to download for a major version.
func downloadable(major string) (embeddedpostgres.PostgresVersion, error) {
	switch major {
	case "", "18":
		return embeddedpostgres.V18, nil
	case "17":
		return embeddedpostgres.V17, nil
	case "16":
		return embeddedpostgres.V16, nil
	case "15":
		return embeddedpostgres.V15, nil
	case "14":
		return embeddedpostgres.V14, nil
	}
	return "", fmt.Errorf("the data were made by PostgreSQL %s, which cannot be downloaded", major)
}

// extract puts the programs into home, all of them or none.
func (r repository) extract(
	version embeddedpostgres.PostgresVersion, cache, home string, announce announcer,
) error {
	if _, err := os.Stat(home); err == nil {
		return nil // Another process has downloaded it while we waited for the lock.
	}
	// The lock is ours, so what is unfinished belongs to a process that was killed.
	unfinished, err := filepath.Glob(filepath.Join(cache, unfinishedPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range unfinished {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(cache, unfinishedPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // The next download removes it.
	made := filepath.Join(dir, "made")
	if announce != nil {
		announce("downloading PostgreSQL %s from %s into %s, once", version, r, home)
	}
	// Start extracts the programs and then runs initdb. No initdb accepts this encoding, so no
	// server is started, and what is left are the programs.
	err = embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(version).
		BinaryRepositoryURL(string(r)).
		Port(0).
		CachePath(filepath.Join(dir, "archive")).
		RuntimePath(filepath.Join(dir, "run")).
		BinariesPath(made).
		Encoding("programs-only").
		Logger(io.Discard)).Start()
	if _, missing := os.Stat(filepath.Join(made, "bin", "initdb")); missing != nil {
		return fmt.Errorf("download PostgreSQL %s: %w", version, cmp.Or(err, missing))
	}
	// Root's umask may have closed them to the account of the server.
	if text, err := exec.Command("chmod", "-R", "a+rX", made).CombinedOutput(); err != nil {
		return fmt.Errorf("chmod: %w: %s", err, text)
	}
	return os.Rename(made, home)
}
