/*
 * Makes each flush of a file take 50 to 200 ms more.
 *
 *   cc -O2 -shared -fPIC -o slowflush.so slowflush.c
 *   LD_PRELOAD=slowflush.so postgres
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

static void wait_a_little(void)
{
	struct timespec now, rest = {0, 50000000};

	clock_gettime(CLOCK_MONOTONIC, &now);
	rest.tv_nsec += now.tv_nsec % 150000000;
	while (nanosleep(&rest, &rest) != 0)
		; /* a signal must not make it faster */
}

int fdatasync(int fd)
{
	int (*next)(int) = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");

	wait_a_little();
	return next(fd);
}

int fsync(int fd)
{
	int (*next)(int) = (int (*)(int)) dlsym(RTLD_NEXT, "fsync");

	wait_a_little();
	return next(fd);
}
