//go:build unix && !aix && !solaris

package localpg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the account that the server runs as: our own, or an unprivileged one when we are root.
// Everything inside the directory of a server belongs to this account.
type account struct {
	uid, gid int
	switched bool // We are root, and have to become this account.
}

// serverAccount chooses the account for a server: as root, the owner of the data that exist there.
func serverAccount(dataDir string) (account, error) {
	if uid := os.Geteuid(); uid != 0 {
		return account{uid: uid, gid: os.Getegid()}, nil
	}
	if info, err := os.Stat(dataDir); err == nil {
		if uid, gid := owner(info); uid != 0 {
			return account{uid: uid, gid: gid, switched: true}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(found.Uid)
		gid, gidErr := strconv.Atoi(found.Gid)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return account{}, fmt.Errorf("account %s: %w", name, err)
		}
		return account{uid: uid, gid: gid, switched: true}, nil
	}
	return account{}, errors.New("postgres refuses to run as root, and there is neither an " +
		"account postgres nor an account nobody to run it as")
}

// attributes starts a process as the account, in a session of its own, so that signals of our
// terminal do not reach it.
func (a account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if a.switched {
		//nolint:gosec // the system gave these numbers
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}

// own hands a file or directory that we created to the account.
func (a account) own(path string) error {
	if !a.switched {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

// signal sends a signal with the rights of the account: when we are root, a process number that is
// wrong must not hit a process of somebody else.
func (a account) signal(pid int, sig syscall.Signal) error {
	if !a.switched {
		return syscall.Kill(pid, sig)
	}
	kill := exec.Command("/bin/sh", "-c", `kill -"$1" "$2"`, "sh",
		strconv.Itoa(int(sig)), strconv.Itoa(pid))
	kill.SysProcAttr = a.attributes()
	kill.Dir = "/"
	return kill.Run()
}

// blockedAt returns the first directory, from dir upwards, that the account cannot pass through, or
// "" when it can reach dir.
func (a account) blockedAt(dir string) (string, error) {
	if !a.switched {
		return "", nil
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return "", err
		}
		if !a.mayEnter(info) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", nil
		}
		dir = parent
	}
}

func (a account) mayEnter(info os.FileInfo) bool {
	mode := info.Mode().Perm()
	switch uid, gid := owner(info); {
	case uid == a.uid:
		return mode&0o100 != 0
	case gid == a.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

// checkPrivate returns an error unless path is a directory, not a link to one, that belongs to the
// account and that nobody else can enter.
func (a account) checkPrivate(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if uid, _ := owner(info); !info.IsDir() || uid != a.uid || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s is not a directory of user %d with mode 0700: remove it", path, a.uid)
	}
	return nil
}

func owner(info os.FileInfo) (uid, gid int) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1 // Nobody: every check that follows then refuses.
	}
	return int(stat.Uid), int(stat.Gid)
}
