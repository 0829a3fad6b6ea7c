// Package upgradetest has tests that upgrade databases and processes of an earlier release.
package upgradetest
