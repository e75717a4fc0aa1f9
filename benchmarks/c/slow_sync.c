/* A disk whose syncs take longer: loaded before the C library, it does what that does, and then waits. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

static void wait_a_while(void) {
    const char *text = getenv("SLOW_SYNC_US");
    long us = text ? atol(text) : 0;
    struct timespec span = {us / 1000000, us % 1000000 * 1000};
    if (us > 0) nanosleep(&span, NULL);
}
int fsync(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
    int result = real(fd);
    wait_a_while();
    return result;
}
int fdatasync(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
    int result = real(fd);
    wait_a_while();
    return result;
}
int msync(void *start, size_t length, int flags) {
    int (*real)(void *, size_t, int) = dlsym(RTLD_NEXT, "msync");
    int result = real(start, length, flags);
    wait_a_while();
    return result;
}
