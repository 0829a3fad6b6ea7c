package localpg

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// DataDir returns the directory in which the server of that name keeps its data for this user, to
// be given as Config.Dir. It creates nothing. The directory is stint/name below $XDG_DATA_HOME or
// ~/.local/share, on macOS below ~/Library/Application Support. For root it is /var/lib/stint/name
// wherever other accounts cannot enter the former, because the server then runs as another account.
// The name must be a plain file name.
//
// Where there are no private servers, the error is [ErrUnsupported].
func DataDir(name string) (string, error) {
	if !supported {
		return "", unsupported()
	}
	return places{getenv: os.Getenv, goos: runtime.GOOS, root: os.Geteuid() == 0}.data(name)
}

// places knows the directories of the current user.
type places struct {
	getenv func(string) string
	goos   string
	root   bool
}

func (p places) data(name string) (string, error) {
	if !filepath.IsLocal(name) || name == "." || name != filepath.Base(name) {
		return "", fmt.Errorf("name of a data directory: %q is not a plain file name", name)
	}
	dir, err := p.own("/var/lib", "XDG_DATA_HOME", ".local/share", "Library/Application Support")
	if err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	return filepath.Join(dir, "stint", name), nil
}

func (p places) cache() (string, error) {
	dir, err := p.own("/var/cache", "XDG_CACHE_HOME", ".cache", "Library/Caches")
	if err != nil {
		return "", fmt.Errorf("cache directory: %w", err)
	}
	return filepath.Join(dir, "stint"), nil
}

// own returns a base directory of the current user: the one in the variable, else the one below the
// home directory. For root it returns system if that directory is closed to the account of the
// server, or if there is none.
func (p places) own(system, variable, belowHome, belowHomeMac string) (string, error) {
	dir := ""
	if home := p.getenv("HOME"); filepath.IsAbs(home) {
		dir = filepath.Join(home, belowHome)
		if p.goos == "darwin" {
			dir = filepath.Join(home, belowHomeMac)
		}
	}
	// The XDG specification says to ignore a path that is not absolute.
	if xdg := p.getenv(variable); filepath.IsAbs(xdg) && p.goos != "darwin" {
		dir = xdg
	}
	switch {
	case p.root && (dir == "" || !openToOthers(dir)):
		return system, nil
	case dir == "":
		return "", fmt.Errorf("neither $HOME nor $%s is an absolute path", variable)
	}
	return dir, nil
}

// openToOthers reports whether any account can pass through the directory, as far as it exists, and
// through all of its parents.
func openToOthers(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err == nil && info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if err != nil && !os.IsNotExist(err) {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}
