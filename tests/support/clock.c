/* Sets the clock of a process forward or back by the seconds in the file that CLOCK_OFFSET names; for LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long *offset;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    static long none;
    const char *path = getenv("CLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY) : -1;
    void *found = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    offset = found == MAP_FAILED ? &none : found;
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
}

int clock_gettime(clockid_t id, struct timespec *now) {
    int said = real(id, now);
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) now->tv_sec += *offset;
    return said;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (out) *out = exact.tv_sec;
    return exact.tv_sec;
}
