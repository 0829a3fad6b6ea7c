//go:build !linux

package testrun

func memory() string { return "" }
