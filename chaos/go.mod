module github.com/stint-tasks/stint/chaos

go 1.26.0

replace github.com/stint-tasks/stint => ../
