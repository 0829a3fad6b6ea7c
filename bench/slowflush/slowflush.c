/*
 * Makes a flush of WAL take so many microseconds more, without the processor, as on a slower disk:
 *
 *   cc -O2 -shared -fPIC -o /tmp/slowflush.so slowflush/slowflush.c
 *   LD_PRELOAD=/tmp/slowflush.so SLOWFLUSH_US=300 go run . -w W18
 *
 * (commit_delay is no substitute: who comes while it waits still joins that flush.)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

int fdatasync(int fd)
{
	static int (*next)(int);
	static long delay;

	if (next == NULL) {
		const char *us = getenv("SLOWFLUSH_US");

		delay = us == NULL ? 0 : atol(us);
		prctl(PR_SET_TIMERSLACK, 1); /* else each sleep is 50 us too long */
		next = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
	}
	struct timespec rest = {delay / 1000000, delay % 1000000 * 1000};

	while (nanosleep(&rest, &rest) != 0)
		; /* a signal must not make it faster */
	return next(fd);
}
