package main

func scaleWorkloads() []workload { return finishedWorkloads() }
func scaleEntries() []entry      { return finishedEntries() }
