/*
 * Keeps account of the handles of librados and librbd that a program has, when it is loaded before them (LD_PRELOAD):
 * aborts when a handle is used or closed after its end, or ended before those made from it, and counts each call.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HANDLES = 65536, NAMES = 32 };

static struct { void *handle, *made_from; } live[HANDLES];
static struct { const char *name; long count; int failure; char thread[16]; } calls[NAMES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void violated(const char *rule, const char *call) {
    fprintf(stderr, "ledger: %s: %s\n", call, rule);
    abort();
}

/* With the lock held, as the next three. */
static int entry(const char *call) {
    for (int i = 0; i < NAMES; i++) {
        if (!calls[i].name) calls[i].name = strdup(call);
        if (!strcmp(calls[i].name, call)) return i;
    }
    abort();
}

static int find(void *handle) {
    for (int i = 0; i < HANDLES; i++)
        if (live[i].handle == handle) return i;
    return -1;
}

static void must_live(void *handle, const char *call) {
    if (find(handle) < 0) violated("its handle has ended", call);
}

/* Counts a call, on a handle that lives; says how it is to fail, if it is. */
static int begin(const char *call, void *handle) {
    pthread_mutex_lock(&lock);
    if (handle) must_live(handle, call);
    int i = entry(call), failure = calls[i].failure;
    calls[i].count++;
    pthread_getname_np(pthread_self(), calls[i].thread, sizeof calls[i].thread);
    pthread_mutex_unlock(&lock);
    return failure;
}

static int made(int returned, void *handle, void *from, const char *call) {
    if (returned < 0) return returned;
    pthread_mutex_lock(&lock);
    int i = find(NULL);
    if (i < 0) violated("too many handles", call);
    live[i].handle = handle;
    live[i].made_from = from;
    pthread_mutex_unlock(&lock);
    return returned;
}

static void end(const char *call, void *handle) {
    begin(call, handle);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < HANDLES; i++)
        if (live[i].handle && live[i].made_from == handle) violated("a handle made from it lives", call);
    live[find(handle)].handle = NULL;
    pthread_mutex_unlock(&lock);
}

/* For the test: how often a call was made, on which thread the last time, and with what errno it is to fail (0: not). */
long ledger_count(const char *call) {
    pthread_mutex_lock(&lock);
    long count = calls[entry(call)].count;
    pthread_mutex_unlock(&lock);
    return count;
}

const char *ledger_thread(const char *call) {
    return calls[entry(call)].thread;
}

void ledger_fail(const char *call, int error) {
    pthread_mutex_lock(&lock);
    calls[entry(call)].failure = -error;
    pthread_mutex_unlock(&lock);
}

/* The function of the library, and what each of ours begins with. */
#define REAL(...) ((int (*)(__VA_ARGS__))dlsym(RTLD_NEXT, __func__))
#define BEGIN(handle)                      \
    int failure = begin(__func__, handle); \
    if (failure) return failure

int rados_create2(void **cluster, const char *name, const char *user, uint64_t flags) {
    BEGIN(NULL);
    int r = REAL(void **, const char *, const char *, uint64_t)(cluster, name, user, flags);
    return made(r, *cluster, NULL, __func__);
}

int rados_conf_read_file(void *cluster, const char *path) {
    BEGIN(cluster);
    return REAL(void *, const char *)(cluster, path);
}

int rados_connect(void *cluster) {
    BEGIN(cluster);
    return REAL(void *)(cluster);
}

void rados_shutdown(void *cluster) {
    end(__func__, cluster);
    REAL(void *)(cluster);
}

int rados_ioctx_create2(void *cluster, int64_t pool, void **io) {
    BEGIN(cluster);
    int r = REAL(void *, int64_t, void **)(cluster, pool, io);
    return made(r, *io, cluster, __func__);
}

void rados_ioctx_destroy(void *io) {
    end(__func__, io);
    REAL(void *)(io);
}

int rados_stat(void *io, const char *object, uint64_t *size, long *time) {
    BEGIN(io);
    return REAL(void *, const char *, uint64_t *, long *)(io, object, size, time);
}

int rbd_open(void *io, const char *name, void **image, const char *snapshot) {
    BEGIN(io);
    int r = REAL(void *, const char *, void **, const char *)(io, name, image, snapshot);
    return made(r, *image, io, __func__);
}

int rbd_open_read_only(void *io, const char *name, void **image, const char *snapshot) {
    BEGIN(io);
    int r = REAL(void *, const char *, void **, const char *)(io, name, image, snapshot);
    return made(r, *image, io, __func__);
}

int rbd_close(void *image) {
    end(__func__, image);
    return REAL(void *)(image);
}
