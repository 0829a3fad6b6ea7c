// Package upgrade has tests that upgrade databases and processes of an earlier release.
package upgrade
